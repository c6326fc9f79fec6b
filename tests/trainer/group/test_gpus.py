"""Which way dense numbers take between the ranks of a trainer, and why."""

import datetime as dt

import pytest
import torch
from torch import distributed

from paceline.trainer.group.collectives import CudaGpus, gpu_of
from paceline.trainer.group.gpu_agreement import Way, decide_way


class NamedGpus:
    """A machine whose devices have names."""

    def __init__(self, **names: str) -> None:
        self._names = names

    def can_connect(self) -> bool:
        return True

    def name(self, device: torch.device) -> str:
        return self._names.get(device.type, "")

    def connect(
        self, device: torch.device, timeout: dt.timedelta
    ) -> distributed.ProcessGroup:
        raise AssertionError(f"{device} is not to be connected within {timeout}")


def test_processes_with_a_gpu_each_need_no_host_memory() -> None:
    way = decide_way(["GPU-a", "GPU-b", "GPU-c"], can_connect=True)
    assert way == Way(True, "each of 3 ranks has a GPU of its own")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (["GPU-a", "GPU-b", "GPU-a"], "ranks 0 and 2 share GPU GPU-a"),
        (["GPU-a"] * 3, "ranks 0, 1 and 2 share GPU GPU-a"),
        (["GPU-a", ""], "parameters of rank 1 do not lie on one GPU"),
        (["", "GPU-a", ""], "parameters of ranks 0 and 2 do not lie on one GPU"),
    ],
)
def test_processes_without_a_gpu_of_their_own_go_by_host_memory_and_are_named(
    found: list[str], why: str
) -> None:
    assert decide_way(found, can_connect=True) == Way(False, why)


def test_without_nccl_numbers_go_by_host_memory() -> None:
    assert decide_way(["a", "b"], can_connect=False) == Way(False, "this torch has no NCCL")


def test_parameters_on_the_cpu_are_nothing_to_speak_of() -> None:
    assert decide_way(["", ""], can_connect=True) == Way(False, "")


def test_parameters_lie_on_a_gpu_when_all_of_them_do() -> None:
    gpus = NamedGpus(meta="GPU-a")
    there, here = torch.empty(2, device="meta"), torch.empty(2)
    assert gpu_of([there, there], gpus) == "GPU-a"
    assert gpu_of([here], gpus) == ""
    assert gpu_of([there, here], gpus) == ""
    assert gpu_of([], gpus) == ""


def test_the_cpu_is_no_gpu_of_cuda() -> None:
    assert CudaGpus().name(torch.device("cpu")) == ""
