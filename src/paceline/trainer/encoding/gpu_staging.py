"""Numbers of a GPU on their way to servers and back: page-locked memory, a stream beside.

::

    push   gradients  --stream beside-->  host memory      waited for, then sent
    pull   host memory  --stream beside-->  parameters     what the user computes next waits
                                                           for it on the GPU, nobody else
    next pull         lands in the same host memory, once the copies out of it are over

Copies begin behind all that the user's stream was given before, and what it is given
afterwards follows them: `step()` means what it means on the CPU. Host memory is made once
for each parameter, and only for those that are not on the CPU.

`Copies` is the whole of what a device does here; tests put another one in its place.

Waits: for copies out of a device, and until host memory is free again. The thread of the
user's loop calls; `Home.wait_free` may be called by the one that receives.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, final

import torch


class Copy(NamedTuple):
    """Between memory of the host and a tensor of a device, of one shape and dtype."""

    host: torch.Tensor
    there: torch.Tensor


class Copies(Protocol):
    """What a device can do."""

    def host_like(self, tensor: torch.Tensor) -> torch.Tensor:
        """Contiguous host memory of a tensor's shape that copies need not stop for."""

    def wait_out(self, copies: Sequence[Copy]) -> None:
        """Copy to the host what tensors hold after all that was computed so far."""

    def send_in(self, copies: Sequence[Copy]) -> Callable[[], object]:
        """Copy to the device, before anything that is computed from now on.

        What is returned waits until the host memory is free again.
        """


CopiesOf = Callable[[torch.device], Copies | None]
"""How to copy to and from a device; None: its tensors are copied as any others."""


@final
class _CudaCopies:
    """`Copies` on a stream of its own, from and to page-locked memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's door

    def host_like(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)

    def wait_out(self, copies: Sequence[Copy]) -> None:
        self._run([(host, there) for host, there in copies]).synchronize()

    def send_in(self, copies: Sequence[Copy]) -> Callable[[], object]:
        done = self._run([(there, host) for host, there in copies])
        torch.cuda.current_stream(self._device).wait_event(done)
        return done.synchronize

    def _run(self, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> torch.cuda.Event:
        """Copy (into, from), behind what the user's stream was given."""
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's door
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            with torch.no_grad():
                for into, source in pairs:
                    into.copy_(source, non_blocking=True)
            done.record(self._stream)
        return done


_made: dict[torch.device, _CudaCopies] = {}  # as many as there are GPUs in use


def copies_of(device: torch.device) -> Copies | None:
    """See `CopiesOf`: CUDA has its own way."""
    if device.type != "cuda":
        return None
    if device not in _made:
        _made[device] = _CudaCopies(device)
    return _made[device]


@final
class HostGradients:
    """Gradients of one part as they are sent: on the host."""

    def __init__(self, copies_of: CopiesOf = copies_of) -> None:
        self._copies_of = copies_of
        self._host: dict[int, torch.Tensor] = {}  # {parameter index: where it is copied}

    def wait_host(self, gradients: Mapping[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        """Gradients, dense ones of any device or sparse ones of the host, on the host.

        The same ones where they are so already; the others in memory that the next call
        writes again.
        """
        found: dict[int, torch.Tensor] = {}
        out: dict[torch.device, list[Copy]] = {}
        for index, gradient in gradients.items():
            copies = self._copies_of(gradient.device)
            if copies is None or gradient.is_sparse:
                found[index] = gradient.cpu()
                continue
            host = self._host.get(index)
            if host is None or host.shape != gradient.shape or host.dtype != gradient.dtype:
                host = self._host[index] = copies.host_like(gradient)
            found[index] = host
            out.setdefault(gradient.device, []).append(Copy(host, gradient))
        for device, together in out.items():
            copies = self._copies_of(device)
            assert copies is not None
            copies.wait_out(together)
        return found


@final
class Home:
    """Host memory beside one dense parameter of a device, which brings values home."""

    def __init__(self, parameter: torch.Tensor, copies: Copies | None) -> None:
        self._is_free: Callable[[], object] = _nothing
        if copies is None:
            self.tensor = parameter.detach().cpu().contiguous().clone()
        else:
            self.tensor = copies.host_like(parameter)
            copies.wait_out([Copy(self.tensor, parameter.detach())])

    def wait_free(self) -> None:
        """Wait until nothing is copied out of this memory any more."""
        self._is_free()
        self._is_free = _nothing

    def bring(self, parameter: torch.Tensor, copies: Copies | None) -> None:
        """The parameter holds what this memory holds, for all that is computed next."""
        with torch.no_grad():
            if copies is None:
                parameter.copy_(self.tensor)
            else:
                self._is_free = copies.send_in([Copy(self.tensor, parameter)])


def _nothing() -> None:
    pass
