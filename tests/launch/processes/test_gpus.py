"""Which GPU a rank sees first."""

import os

import pytest
import torch

from paceline.launch.processes import group
from paceline.launch.processes.group import VISIBLE, own_gpu_first, turn_of


def test_each_process_sees_another_gpu_first_and_all_of_them() -> None:
    seen = [own_gpu_first(None, 4, turn) for turn in range(4)]
    assert seen == ["0,1,2,3", "1,2,3,0", "2,3,0,1", "3,0,1,2"]


def test_more_processes_than_gpus_begin_again() -> None:
    assert own_gpu_first(None, 2, 2) == own_gpu_first(None, 2, 0) == "0,1"


def test_only_gpus_that_the_user_lets_be_seen_are_seen() -> None:
    assert own_gpu_first("5, 7", 2, 1) == "7,5"
    assert own_gpu_first("GPU-a,GPU-b,GPU-c", 3, 4) == "GPU-b,GPU-c,GPU-a"
    assert own_gpu_first("0,9,1", 1, 1) is None, "CUDA stops at the first that is not there"


@pytest.mark.parametrize(("visible", "num_gpus"), [(None, 0), (None, 1), ("", 0), ("3", 1)])
def test_where_there_is_nothing_to_choose_nothing_is_changed(
    visible: str | None, num_gpus: int
) -> None:
    assert own_gpu_first(visible, num_gpus, 3) is None


def test_trainers_of_one_machine_do_not_begin_at_the_same_gpu() -> None:
    turns = [turn_of(f"trainer-{n}", index, 2) for n in (0, 1, 11) for index in (0, 1)]
    assert turns == [0, 1, 2, 3, 22, 23]


def test_a_process_of_a_trainer_chooses_before_its_script_could_use_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setenv(VISIBLE, "4,5,6,7")
    group._choose_gpu("trainer-1", 1, 2)
    assert os.environ[VISIBLE] == "7,4,5,6"


def test_without_gpus_the_environment_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.delenv(VISIBLE, raising=False)
    group._choose_gpu("trainer-1", 1, 2)
    assert VISIBLE not in os.environ
