"""How a trainer's tracked objects stand to the state that a server keeps of them.

Pure.
"""

from collections.abc import Mapping
from typing import final

from paceline.messages.data import AskTracked, KeepTracked
from paceline.messages.shared import AverageShare, Message, Waiting
from paceline.messages.trainer import BuffersKept, StageOver, Ticked, TrackedKept
from paceline.trainer.acts import Act, Asking
from paceline.trainer.holdings import SharedPart

_UNKNOWN = -1  # no number of a state: the objects may be as no other trainer has them
_KEPT_BITS = 24  # a number is an incarnation and a count, so that nobody has it twice


@final
class Tracking:
    """The number of the state that the objects were kept or loaded as, last."""

    def __init__(self, parts: Mapping[int, SharedPart]) -> None:
        self.is_wanted = False  # the coordinator wants it kept before the next batch
        self.number = 0  # 0 is the beginning
        self.loads = 0  # how often a state was loaded into the objects
        self.buffers = 0  # number of the state whose averaged objects were loaded last
        self.moves = 0  # how often a state has left or come
        self._parts = parts
        self._since: dict[int, int] = {}  # {part: its records, where `records` begins}
        self._wants_buffers = False
        self._average: tuple[AverageShare, ...] = ()
        self._num_kept = 0
        self._has_passed = False  # an ended loop: what was loaded there is loaded again

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
        """Load the state that ``server`` keeps, unless the objects are in it."""
        if wanted is None or (wanted == self.number and not self._has_passed):
            return
        self._has_passed = False
        self.moves += 1
        if wanted != 0:
            ask = AskTracked(**asking.who(), number=wanted)
            yield from asking.ask_servers({server: ask})
        self.number = wanted
        self.loads += 1
        self._are_equal()

    def end_stage(self, asking: Asking, server: str, over: StageOver) -> Act[None]:
        """Load what a stage has ended with, or what the job has by now, if it was over.

        What a script does to its objects behind such a loop, as a scheduler's step, others
        have done before: with work the state comes again.
        """
        if over.state is not None or over.passed is None:
            yield from self.load(asking, server, over.state)
        else:
            yield from self.load(asking, server, over.passed)
            self._has_passed = True
        yield from self._load_buffers(asking, server, over.tracked)

    def _load_buffers(self, asking: Asking, server: str, wanted: int | None) -> Act[None]:
        """Load averaged objects of the state that a stage has ended with."""
        if wanted is not None and wanted != self.number:
            self.moves += 1
            ask = AskTracked(**asking.who(), number=wanted)
            yield from asking.ask_servers({server: ask})
            self.buffers = wanted
        self._are_equal()
