"""Dense numbers between the ranks of one trainer: `torch.distributed`, over loopback.

Values travel in one flat tensor for each rank's share and dtype, all at once: on the CPU
(Gloo), or from GPU to GPU (NCCL) in parts of which ranks have agreed so. Ranks find each
other by a file, which is removed once they have; where GPUs may still have to, at the end.

Waits: for all other ranks to make the same call, `WAIT_S` at most; a rank that dies breaks
it at once. Between GPUs nobody waits here: what is computed next waits on the GPU, and
torch ends a process whose GPU has waited for `WAIT_S`.
"""

import contextlib
import datetime as dt
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, final

import torch
from torch import distributed

from paceline.errors import PeerLost, UsageError
from paceline.trainer.encoding import HostGradients
from paceline.trainer.group.shares import ElementSpan, Shares
from paceline.trainer.group.wire import GroupPlace
from paceline.trainer.tensors import ModelTensors

WAIT_S = 120.0  # all have said that they come; so this is for copying and adding
_TIMEOUT = dt.timedelta(seconds=WAIT_S)
_CPU = torch.device("cpu")

_HALVES = {torch.float16, torch.bfloat16}


@final
class CudaGpus:
    """Those that CUDA knows, connected by NCCL.

    The group for the CPU stays as it is: a job whose parameters lie on the CPU touches no
    GPU, on whatever machine.
    """

    def can_connect(self) -> bool:
        """Whether there is anything here that could ever be connected; none is used yet."""
        return distributed.is_nccl_available() and torch.cuda.device_count() > 1

    def name(self, device: torch.device) -> str:
        """What names a GPU in all processes of this machine; nothing for another device."""
        if device.type != "cuda":
            return ""
        return str(torch.cuda.get_device_properties(device).uuid)

    def connect(
        self, device: torch.device, timeout: dt.timedelta
    ) -> distributed.ProcessGroup:
        """Connect this rank's GPU with those of all others, who make the same call.

        At once, so that what is wrong is known before the first step.

        Raises:
            RuntimeError: they cannot be connected.
        """
        group: distributed.ProcessGroup = distributed.new_group(
            backend="nccl", timeout=timeout, device_id=device
        )
        return group


def gpu_of(parameters: Sequence[torch.Tensor], gpus: CudaGpus) -> str:
    """The GPU that all these lie on; nothing if there is no such."""
    devices = {parameter.device for parameter in parameters}
    return gpus.name(devices.pop()) if len(devices) == 1 else ""


@final
class GroupTensors:
    """One rank's end of the collectives."""

    def __init__(self, place: GroupPlace) -> None:
        """Meet the other ranks.

        Raises:
            UsageError: the script has a process group of its own.
            PeerLost: another rank did not come.
        """
        if distributed.is_initialized():
            raise UsageError(
                "--ranks-per-trainer makes torch.distributed's process group for the ranks "
                "of a trainer: leave init_process_group out of the script"
            )
        shown = sys.excepthook  # torch puts its own in its place, and words in every line
        try:
            distributed.init_process_group(
                "gloo",
                store=distributed.FileStore(  # type: ignore[attr-defined]  # torch's door
                    place.rendezvous, place.size
                ),
                rank=place.number,
                world_size=place.size,
                timeout=_TIMEOUT,
            )
            distributed.barrier()
            sys.excepthook = shown
        except RuntimeError as error:
            raise PeerLost(f"the ranks of {place.role} do not meet: {error}") from error
        self._place, self._number = place, place.number
        self.gpus = CudaGpus()
        self._group: distributed.ProcessGroup | None = None  # of GPUs, once connected
        self._devices: dict[int, torch.device] = {}  # {part between GPUs: this rank's}
        self._hosts: dict[int, HostGradients] = {}  # {part: by which its GPU's leave it}
        if not self.gpus.can_connect():
            self._leave_rendezvous()

    def close(self) -> None:
        """Disconnect GPUs, when all ranks are at their end."""
        if self._group is not None:
            with contextlib.suppress(RuntimeError):
                distributed.destroy_process_group(self._group)
            self._group = None
        self._leave_rendezvous()

    def _leave_rendezvous(self) -> None:
        if self._number == 0:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._place.rendezvous)

    def gpus_of(self, numbers: Mapping[int, ModelTensors]) -> dict[int, str]:
        """{part: the GPU that its parameters lie on in this rank}, where it is one."""
        found = {part: gpu_of(one.parameters, self.gpus) for part, one in numbers.items()}
        return {part: gpu for part, gpu in found.items() if gpu}

    def go_between_gpus(
        self, parts: Sequence[int], numbers: Mapping[int, ModelTensors]
    ) -> None:
        """Let dense numbers of these parts, in every rank, and of no others, stay on GPUs.

        Raises:
            PeerLost: this rank's GPU cannot be connected with the others'.
        """
        devices = {part: numbers[part].parameters[0].device for part in parts}
        if devices and self._group is None:
            try:
                self._group = self.gpus.connect(next(iter(devices.values())), _TIMEOUT)
            except RuntimeError as error:
                raise PeerLost(
                    f"the GPUs of {self._place.role} cannot be connected: {error}; "
                    "NCCL_DEBUG=INFO says more"
                ) from error
        self._devices = devices

    def reduce(
        self,
        part: int,
        tensors: Sequence[torch.Tensor | None],
        like: Sequence[torch.Tensor],
        weight: float,
        shares: Shares,
    ) -> list[torch.Tensor | None]:
        """Add tensors of a part up over all ranks, each times its rank's weight.

        ``tensors`` are contiguous; None stands for zeros. ``like`` are of the same shapes
        and dtypes, the same in every rank, as ``shares`` are: which sums each rank gets.

        Returns:
            Of the shapes of ``like``: the sums that are this rank's, and zeros; None where
            none of a tensor is. On the GPU, where numbers of the part stay there.
        """
        device, group = self._road(part)
        if part not in self._devices:
            there = {i: one for i, one in enumerate(tensors) if one is not None}
            here = self._hosts.setdefault(part, HostGradients()).wait_host(there)
            tensors = [here.get(i) for i in range(len(tensors))]
        flat = [
            _scaled(tensor, one, weight, device)
            for tensor, one in zip(tensors, like, strict=True)
        ]
        bundles = _bundles([one.dtype for one in flat], shares)
        sums = [_together(flat, bundle.pieces) for bundle in bundles]
        self._collect(
            partial(distributed.reduce, total, bundle.holder, group=group, async_op=True)
            for bundle, total in zip(bundles, sums, strict=True)
        )
        found: dict[int, torch.Tensor] = {}
        for bundle, total in zip(bundles, sums, strict=True):
            if bundle.holder == self._number:
                for piece, values in _apart(total, bundle.pieces):
                    if len(values) == len(flat[piece.place]):
                        found[piece.place] = values
                        continue
                    if piece.place not in found:
                        found[piece.place] = torch.zeros_like(flat[piece.place])
                    found[piece.place][piece.start : piece.stop] = values
        return [
            found[i].view(one.shape).to(one.dtype) if i in found else None
            for i, one in enumerate(like)
        ]

    def broadcast(
        self, part: int, parameters: Sequence[torch.Tensor], shares: Shares
    ) -> None:
        """Let tensors have everywhere, in place, the values of the rank that holds them.

        ``shares``, the same in every rank: which values each rank holds.
        """
        device, group = self._road(part)
        bundles = _bundles([one.dtype for one in parameters], shares)
        own = [p.detach().reshape(-1) for p in parameters]
        values = [
            _together(own, bundle.pieces).to(device)
            if bundle.holder == self._number
            else torch.empty(size, dtype=bundle.dtype, device=device)
            for bundle in bundles
            for size in [sum(piece.stop - piece.start for piece in bundle.pieces)]
        ]
        raw = [flat.view(torch.uint8) for flat in values]  # any dtype: nothing is added
        self._collect(
            partial(distributed.broadcast, flat, bundle.holder, group=group, async_op=True)
            for bundle, flat in zip(bundles, raw, strict=True)
        )
        with torch.no_grad():
            for bundle, flat in zip(bundles, values, strict=True):
                if bundle.holder == self._number:
                    continue
                for piece, found in _apart(flat, bundle.pieces):
                    parameter = parameters[piece.place]
                    if len(found) == parameter.numel():
                        parameter.copy_(found.view(parameter.shape))
                    else:
                        _write(parameter, piece, found)

    def _road(self, part: int) -> tuple[torch.device, distributed.ProcessGroup | None]:
        """Where numbers of a part meet, and by which group; None is the one of the CPU."""
        if part in self._devices:
            return self._devices[part], self._group
        return _CPU, None

    def _collect(self, collectives: Iterable[Callable[[], Any]]) -> None:
        try:
            for work in [collective() for collective in collectives]:
                work.wait()
        except RuntimeError as error:
            raise PeerLost(f"another rank of this trainer is gone: {error}") from error


class _Bundle(NamedTuple):
    """What travels as one tensor: pieces of one dtype that one rank holds."""

    holder: int
    dtype: torch.dtype
    pieces: list[ElementSpan]


def _bundles(dtypes: Sequence[torch.dtype], shares: Shares) -> list[_Bundle]:
    """In an order that is the same in every rank."""
    found: dict[tuple[int, torch.dtype], list[ElementSpan]] = {}
    for holder in sorted(shares):
        for piece in shares[holder]:
            found.setdefault((holder, dtypes[piece.place]), []).append(piece)
    return [_Bundle(holder, dtype, pieces) for (holder, dtype), pieces in found.items()]


def _together(flat: Sequence[torch.Tensor], pieces: Sequence[ElementSpan]) -> torch.Tensor:
    return torch.cat([flat[piece.place][piece.start : piece.stop] for piece in pieces])


def _apart(
    flat: torch.Tensor, pieces: Sequence[ElementSpan]
) -> Iterator[tuple[ElementSpan, torch.Tensor]]:
    sizes = [piece.stop - piece.start for piece in pieces]
    yield from zip(pieces, torch.split(flat, sizes), strict=True)


def _write(parameter: torch.Tensor, piece: ElementSpan, values: torch.Tensor) -> None:
    """Write some elements of a tensor, whatever its layout: a block is of whole rows."""
    if parameter.is_contiguous():
        parameter.view(-1)[piece.start : piece.stop] = values
    else:
        width = parameter.numel() // len(parameter)
        rows = slice(piece.start // width, piece.stop // width)
        parameter[rows] = values.view(-1, *parameter.shape[1:])


def _scaled(
    tensor: torch.Tensor | None, like: torch.Tensor, weight: float, device: torch.device
) -> torch.Tensor:
    dtype = torch.float32 if like.dtype in _HALVES else like.dtype
    if tensor is None:
        return torch.zeros(like.numel(), dtype=dtype, device=device)
    return tensor.reshape(-1).to(device, dtype) * weight
