"""How a trainer's tracked objects stand to the state that a server keeps of them.

Pure.
"""

from collections.abc import Mapping
from typing import final

from paceline.messages.data import AskTracked, KeepTracked
from paceline.messages.shared import AverageShare, Lease, Message, StageSpec, Waiting
from paceline.messages.trainer import BuffersKept, StageOver, Ticked, TrackedKept
from paceline.trainer.acts import Act, Asking
from paceline.trainer.holdings import SharedPart

_UNKNOWN = -1  # no number of a state: the objects may be as no other trainer has them
_LEFT = -2  # it is not known yet what a loop that was left early will end with
_KEPT_BITS = 24  # a number is an incarnation and a count, so that nobody has it twice


@final
class Tracking:
    """The number of the state that the objects were kept or loaded as, last."""

    def __init__(self, parts: Mapping[int, SharedPart]) -> None:
        self.is_wanted = False  # the coordinator wants it kept before the next batch
        self.number = 0  # 0 is the beginning
        # States: of the end of the last loop, and of the loop before the current one. What
        # the script did behind it is in no state that servers have. None: not known.
        self.ended_as: int | None = 0
        self.entered_as: int | None = 0
        self.loads = 0  # how often a state was loaded into the objects
        self.buffers = 0  # number of the state whose averaged objects were loaded last
        self.moves = 0  # how often a state has left or come
        self._parts = parts
        self._since: dict[int, int] = {}  # {part: its records, where `records` begins}
        self._wants_buffers = False
        self._average: tuple[AverageShare, ...] = ()
        self._num_kept = 0

    @property
    def records(self) -> int:
        """Trained since averaged objects were equal to those of all others."""
        since = self._since
        return max(
            (part.records - since.get(n, 0) for n, part in self._parts.items()), default=0
        )

    @property
    def is_known(self) -> bool:
        """Whether the objects are, or are to be, of a state that has a number."""
        return self.number != _UNKNOWN

    def _are_equal(self) -> None:
        """Averaged objects are those of all others from here on."""
        self._since = {number: part.records for number, part in self._parts.items()}

    def begin(self, spec: StageSpec) -> None:
        """A loop's first state is what the script has made of the end of the last one."""
        if spec.is_training:
            self.entered_as = self.ended_as

    def leave(self) -> None:
        """A loop is left early: what is here then is its end as the script knows it."""
        self.ended_as = _LEFT

    def enter(
        self, asking: Asking, server: str, lease: Lease, *, trains: bool = True
    ) -> Act[None]:
        """With its first lease a trainer has what those have whom it joins.

        In an evaluation it keeps what its script has made of the end of the last loop.
        """
        if lease.is_end and self.ended_as == _LEFT:
            self.ended_as = lease.tracked
            self.entered_as = lease.tracked if trains else self.entered_as
        if trains or lease.tracked != self.ended_as:
            yield from self.load(asking, server, lease.tracked)

    def end(self, asking: Asking, server: str, over: StageOver) -> Act[None]:
        """A loop is over for all: have what it has ended with."""
        yield from self.load(asking, server, None if over.has_state else over.state)
        self.ended_as = over.state
        yield from self.load_buffers(asking, server, over.tracked)

    @property
    def is_first(self) -> bool:
        """Whether the objects are, or are to be, as when this loop began."""
        return self.number in {0, self.entered_as}

    def forget(self) -> None:
        """A step was dropped: the objects may have moved with it, or not."""
        self.is_wanted = self._wants_buffers = False
        self._average = ()
        self.number = _UNKNOWN
        self._are_equal()

    def note(self, reply: Message) -> None:
        """The coordinator has answered; it may want the state."""
        if isinstance(reply, Ticked):
            self.is_wanted |= reply.track
        elif isinstance(reply, Waiting):
            self.is_wanted |= reply.track
            if reply.buffers or reply.average:
                self.is_wanted = True
                self._wants_buffers, self._average = reply.buffers, reply.average

    def keep(self, asking: Asking, server: str, rounds: dict[int, int]) -> Act[None]:
        """Send what is wanted to ``server``, then tell the coordinator of it."""
        only, average = self._wants_buffers, self._average
        self.is_wanted = self._wants_buffers = False
        self._average = ()
        self.moves += 1
        self._num_kept += 1
        number = (asking.incarnation << _KEPT_BITS) + self._num_kept
        for share in average:
            ask = AskTracked(**asking.who(), number=share.number)
            yield from asking.ask_servers({server: ask})
        who = asking.who()
        keep = KeepTracked(**who, number=number, buffers_only=only, average=average)
        yield from asking.ask_servers({server: keep})
        if only:
            yield from asking.ask(BuffersKept(**who, number=number, records=self.records))
            return
        is_average = bool(average)
        yield from asking.ask(
            TrackedKept(**who, number=number, rounds=rounds, is_average=is_average)
        )
        # Its own buffers are those of the average only when the stage has ended.
        self.number = _UNKNOWN if is_average else number

    def load(self, asking: Asking, server: str, wanted: int | None) -> Act[None]:
        """Load the state that ``server`` keeps, unless the objects are in it.

        That of before this loop is not asked for: the loop's first state follows from it.
        """
        if wanted is None or wanted == self.number:
            return
        self.moves += 1
        self.number = wanted
        if not self.is_first:
            ask = AskTracked(**asking.who(), number=wanted)
            self.number = _UNKNOWN
            yield from asking.ask_servers({server: ask})
            self.number = wanted
        self.loads += 1
        self._are_equal()

    def load_buffers(self, asking: Asking, server: str, wanted: int | None) -> Act[None]:
        """Load averaged objects of the state that a stage has ended with."""
        if wanted is not None and wanted != self.number:
            self.moves += 1
            ask = AskTracked(**asking.who(), number=wanted)
            yield from asking.ask_servers({server: ask})
            self.buffers = wanted
        self._are_equal()
