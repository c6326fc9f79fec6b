"""Whether dense numbers of a trainer's ranks travel from GPU to GPU.

NCCL refuses two ranks on one GPU; so it is decided part by part, of what ranks say, and by
way of host memory (Gloo) otherwise.

`Gpus` is the whole of what a machine's GPUs do here; tests put others in their place.

Pure, but for `CudaGpus`.
"""

import datetime as dt
from collections.abc import Sequence
from typing import NamedTuple, Protocol, final

import torch
from torch import distributed


class Gpus(Protocol):
    """The GPUs of a machine, as one rank uses them."""

    def can_connect(self) -> bool:
        """Whether there is anything here that could ever be connected."""

    def name(self, device: torch.device) -> str:
        """What names a GPU in all processes of this machine; nothing for another device."""

    def connect(
        self, device: torch.device, timeout: dt.timedelta
    ) -> distributed.ProcessGroup:
        """Connect this rank's GPU with those of all others, who make the same call.

        Raises:
            RuntimeError: they cannot be connected.
        """


@final
class CudaGpus:
    """Those that CUDA knows, connected by NCCL.

    The group for the CPU stays as it is: a job whose parameters lie on the CPU touches no
    GPU, on whatever machine.
    """

    def can_connect(self) -> bool:
        """See `Gpus`; does not begin to use one."""
        return distributed.is_nccl_available() and torch.cuda.device_count() > 1

    def name(self, device: torch.device) -> str:
        """See `Gpus`: its UUID, whatever its number is here."""
        if device.type != "cuda":
            return ""
        return str(torch.cuda.get_device_properties(device).uuid)

    def connect(
        self, device: torch.device, timeout: dt.timedelta
    ) -> distributed.ProcessGroup:
        """See `Gpus`: at once, so that what is wrong is known before the first step."""
        group: distributed.ProcessGroup = distributed.new_group(
            backend="nccl", timeout=timeout, device_id=device
        )
        return group


class Way(NamedTuple):
    """How the dense numbers of a part travel between ranks; ``why``: if a GPU is in use."""

    is_between_gpus: bool
    why: str


def gpu_of(parameters: Sequence[torch.Tensor], gpus: Gpus) -> str:
    """The GPU that all these lie on; nothing if there is no such."""
    devices = {parameter.device for parameter in parameters}
    return gpus.name(devices.pop()) if len(devices) == 1 else ""


def decide_way(found: Sequence[str], *, can_connect: bool) -> Way:
    """Decide how the numbers of one part travel, of the GPU of each rank's parameters.

    ``can_connect``: NCCL is here.
    """
    missing = [index for index, gpu in enumerate(found) if not gpu]
    if len(missing) == len(found):
        return Way(False, "")
    if missing:
        return Way(False, f"parameters of {_named(missing)} do not lie on one GPU")
    for gpu in found:
        sharing = [index for index, other in enumerate(found) if other == gpu]
        if len(sharing) > 1:
            return Way(False, f"{_named(sharing)} share GPU {gpu}")
    if not can_connect:
        return Way(False, "this torch has no NCCL")
    return Way(True, f"each of {len(found)} ranks has a GPU of its own")


def _named(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    return f"ranks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
