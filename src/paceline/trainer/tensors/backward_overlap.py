"""Gradients sent while backward still runs, ahead of the push that names them.

::

    backward   a gradient is there --PushEarly, tag t--> its servers hold it
    step()     Push: the early ones by {slot: tag}, the others as ever
    repeat of that push: all of them, as if nothing had been sent early

So nothing depends on what was sent early but time: a server that does not have all that a
push names asks for it again. What no push names never counts (a batch that was skipped, a
gradient that grew by another backward).

Only what is worth a message of its own goes early. Autograd runs hooks of parameters on the
CPU in the thread of the user's loop. To a server on the same host that thread sends itself:
it is the copy that the push would make. A socket to another host takes what it can hold,
and whoever sends more waits: there a thread beside it sends, and what that has not begun
when the step comes goes with the push.

Waits: to send, as the connection does; in `EarlySender.name` for what is being sent; in
`EarlySender.clear`, for replies that have come long ago. The thread of the user's loop
calls.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, NamedTuple, final

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from paceline.config import Pace
from paceline.errors import PacelineError, UsageError
from paceline.failpoints import failpoint
from paceline.messages.data import PushEarly
from paceline.messages.shared import Block, Refusal, Waiting
from paceline.pace.policy import push_from, steps_locally
from paceline.trainer.client import Driver, Payload, Sent
from paceline.trainer.encoding import all_finite, byte_array, cut
from paceline.trainer.holdings import SharedPart
from paceline.trainer.protocol import TrainerProtocol

Send = Callable[[], None]


@final
class SendingThread:
    """Sends what it is handed, one after the other; with nothing left its thread ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the two fields below
        self._waiting: deque[Send] = deque()
        self._is_sending = False  # the thread will look for more
        self._thread: threading.Thread | None = None  # the last one

    def hand(self, send: Send) -> None:
        """Have something sent behind all that was handed before; it must not raise."""
        with self._lock:
            self._waiting.append(send)
            if self._is_sending:
                return
            self._is_sending = True
        self._thread = threading.Thread(
            target=self._run, name="paceline-early", daemon=True
        )
        self._thread.start()

    def num_waiting(self) -> int:
        """How many have not been begun."""
        with self._lock:
            return len(self._waiting)

    def withdraw(self) -> None:
        """What has not been begun is not sent; what has been begun is, to its end."""
        with self._lock:
            self._waiting.clear()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_sending = False
                    return
                send = self._waiting.popleft()
            send()


# A message costs both ends about 0.1 ms: what is copied faster waits for the push.
EARLY_BYTES: Final = 64 << 10

_NETWORK: Final = "tcp:"
_CHANGED: Final = (
    "step(): the gradient of {name!r} was changed after backward() had sent it, by "
    "clipping or by a GradScaler that unscales: with overlap=True a gradient is sent as "
    "it comes; share the model with overlap=False, or leave its gradients as they are"
)


def why_not_early(
    pace: Pace, parameters: Sequence[nn.Parameter], *, processes: int
) -> str | None:
    """Why gradients of a part cannot be sent while backward runs; None if they can."""
    if processes > 1:
        return (
            "overlap=True with --ranks-per-trainer: a gradient is the trainer's when all "
            "of its processes have theirs; use one process for each trainer"
        )
    if pace.codec is not None:
        return (
            f"overlap=True with codec={pace.codec}: what a codec leaves out is known when "
            "the gradient is whole, at step(); choose one of the two"
        )
    if steps_locally(pace):
        return (
            f"overlap=True with {pace}: what is pushed is how far steps have led, which is "
            "known at step(); leave overlap out"
        )
    if push_from(pace) > 1:
        return (
            f"overlap=True with {pace}: gradients of several batches become one push, and "
            "only the last backward would have it; push every batch, or leave overlap out"
        )
    elsewhere = [p.device for p in parameters if p.device.type != "cpu"]
    if elsewhere:
        return (
            f"overlap=True with parameters on {elsewhere[0]}: gradients are sent from the "
            "memory of the CPU; leave overlap out"
        )
    return None


class _Piece(NamedTuple):
    """A gradient that was sent, as it was then."""

    tag: int
    gradient: torch.Tensor
    version: int
    slots: dict[str, tuple[int, ...]]  # {server: those of its slots that have it}


class _Asked(NamedTuple):
    parameter: int
    server: str
    sent: Sent


@final
class EarlySender:
    """What of one part's next push is on its way already; nothing before `begin`."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.is_on = True  # the pace lets gradients go as they come
        self._parameters = parameters
        self._pieces: dict[int, _Piece] = {}  # {parameter index: what was sent of it}
        self._named: dict[str, dict[int, int]] = {}  # {server: {slot: tag}}
        self._backwards: dict[int, int] = {}  # {parameter index: since the last step}
        self._usual: dict[int, int] = {}  # {parameter index: up to the last step}
        self._unwanted: set[int] = set()  # parameters that servers have no room for
        self._asked: list[_Asked] = []  # not answered yet, as far as is known
        self._asked_before: list[_Asked] = []  # the same, for a push that is on its way
        self._tag = 0
        self._hooks: list[RemovableHandle] = []
        self._sending = SendingThread()  # over networks

    def take_pace(self, pace: Pace) -> None:
        """Send gradients as they come only where the pace lets them."""
        self.is_on = why_not_early(pace, self._parameters, processes=1) is None

    def begin(self, protocol: TrainerProtocol, driver: Driver, part: int) -> None:
        """From now on, send gradients of a shared part as they come."""
        self._protocol, self._driver = protocol, driver
        self._part: SharedPart = protocol.parts[part]
        self._thread = threading.get_ident()
        for index, parameter in enumerate(self._parameters):
            if parameter.nbytes >= EARLY_BYTES:
                hook = partial(self._accumulated, index)
                handle = parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]  # torch's door
                self._hooks.append(handle)

    def end(self) -> None:
        """Send nothing any more."""
        for hook in self._hooks:
            hook.remove()
        self.clear(is_flying=False)

    def _accumulated(self, index: int, parameter: torch.Tensor) -> None:
        """A backward has left a gradient; it may not be the last before the step."""
        gradient = parameter.grad
        if gradient is None or not self._may_send():
            return
        count = self._backwards[index] = self._backwards.get(index, 0) + 1
        has_grown = self._pieces.pop(index, None) is not None
        is_last = count == self._usual.get(index, 1)
        if has_grown or not is_last or index in self._unwanted or not _is_plain(gradient):
            return
        if all_finite([gradient]):
            self._send(index, gradient)

    def _may_send(self) -> bool:
        return (
            self.is_on
            and threading.get_ident() == self._thread
            and not self._protocol.must_join
            and self._part.window.has_delivered()
        )

    def _send(self, index: int, gradient: torch.Tensor) -> None:
        plan, part = self._part.plan, self._part
        assert plan is not None
        blocks: dict[str, list[Block]] = {}  # {server: its blocks of the parameter}
        for block in plan.blocks:
            if block.parameter == index:
                blocks.setdefault(plan.placement[block.slot], []).append(block)
        self._tag += 1
        piece = _Piece(self._tag, gradient, gradient._version, {})
        array = byte_array(gradient)
        for server, here in blocks.items():
            message = PushEarly(
                **self._protocol.asking.who(),
                part=part.spec.part,
                number=part.number + 1,
                tag=self._tag,
                blocks=tuple(block.slot for block in here),
                # A push that is still on its way may be of the batch before.
                is_lent=not part.rules.pushes_overlap,
            )
            buffers = [cut(array, block, gradient.element_size()) for block in here]
            pen = (
                None if part.rules.pushes_overlap else ~here[0].slot
            )  # >= 0 are those of pushes
            payload = Payload(message, buffers, pen=pen)
            send = partial(self._send_one, index, server, payload, piece)
            if self._protocol.servers[server].startswith(_NETWORK):
                self._sending.hand(send)
            else:
                send()
        self._pieces[index] = piece

    def _send_one(self, index: int, server: str, payload: Payload, piece: _Piece) -> None:
        """Send a server's share; in a thread of its own, no other looks meanwhile."""
        assert isinstance(payload.message, PushEarly)
        # What cannot be sent is left to the push, which says why.
        with contextlib.suppress(PacelineError):
            sent = self._driver.send(server, payload)
            if sent is not None:
                self._asked.append(_Asked(index, server, sent))
                piece.slots[server] = payload.message.blocks
        failpoint("trainer.after_early")

    def check(self) -> None:
        """A step begins: gradients are as they were sent.

        Raises:
            UsageError: one was changed since.
        """
        for index in self._pieces:
            if self._parameters[index].grad is not None and not self._is_as_sent(index):
                name = self._part.spec.parameters[index].names[0]
                raise UsageError(_CHANGED.format(name=name))

    def name(self, indices: Collection[int]) -> set[int]:
        """Let the next push name what was sent of these parameters; it is finite."""
        self._sending.withdraw()
        self._named = {}
        found = {i for i in self._pieces if i in indices and self._is_as_sent(i)}
        for index in found:
            piece = self._pieces[index]
            for server, slots in piece.slots.items():
                named = self._named.setdefault(server, {})
                named.update(dict.fromkeys(slots, piece.tag))
        return found

    def take(self, server: str) -> dict[int, int]:
        """What a push to a server names, ``{slot: tag}``; a repeat of it names nothing."""
        return self._named.pop(server, {})

    def clear(self, *, is_flying: bool) -> None:
        """The step is over: nothing that was sent is named by a later one.

        ``is_flying``: its push is not acknowledged yet; the one before it is.
        """
        self._sending.withdraw()
        self._pieces.clear()
        if self._backwards:
            self._usual, self._backwards = self._backwards, {}
        self._settle(self._asked_before)
        self._asked_before, self._asked = self._asked, []
        if not is_flying:
            self._settle(self._asked_before)

    def _is_as_sent(self, index: int) -> bool:
        piece, gradient = self._pieces[index], self._parameters[index].grad
        return gradient is piece.gradient and gradient._version == piece.version

    def _settle(self, asked: list[_Asked]) -> None:
        """Servers answer in order: what was asked before a push is answered before it."""
        while asked:
            index, server, sent = asked.pop()
            reply = self._driver.settle(server, sent)
            is_invalid = isinstance(reply, Refusal) and reply.kind == "invalid"
            if is_invalid or isinstance(reply, Waiting):
                self._unwanted.add(index)


def _is_plain(gradient: torch.Tensor) -> bool:
    """Whether its memory is what a push would carry."""
    is_dense = gradient.layout == torch.strided and gradient.device.type == "cpu"
    return is_dense and gradient.is_contiguous()
