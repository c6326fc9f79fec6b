"""What becomes of a host on Ray whose agent has ended, or whose actor does not answer.

::

    waiting    Ray has no place for it yet, or is about to start it again
    there      its agent runs
    leaving    its agent was told to leave: its machine is drained, or its place needed
    over       its agent has heard that the job is over
    gone       it is not started again

Whether the job has lost it is not decided here, nor by Ray.

Pure: time is an argument.
"""

from collections.abc import Iterable
from typing import Literal, final

from paceline.ids import first_few
from paceline.launch.engines.ray.wish import RayHost

REFUSED = 2  # exit status: this machine cannot take part
MOST_REFUSALS = 3  # in a row: where it may be placed is no better
UNREACHED_S = 1.0
MOST_PAUSE_S = 30.0
STEADY_S = 60.0  # who ran for so long has not failed again, but anew
TELL_AFTER_S = 5.0
YIELD_AFTER_S = 10.0
TELL_EVERY_S = 60.0

State = Literal["waiting", "there", "leaving", "over", "gone"]
Next = Literal["nothing", "again", "elsewhere", "held", "gone"]


@final
class Standing:
    """How one host stands."""

    def __init__(self, host: RayHost, now: float) -> None:
        """It is asked for."""
        self.host = host
        self.state: State = "waiting"
        self.node = ""  # where it is
        self.due_s = now  # when its actor is asked next, or started again
        self.is_to_restart = False
        self._there_s = self.waits_s = now  # since when
        self._in_a_row = 0
        self._yields = False

    @property
    def is_done(self) -> bool:
        """Whether nothing is asked any more."""
        return self.state in {"over", "gone"}

    def runs(self, node: str, now: float) -> None:
        """Its agent does."""
        if self.state == "waiting":
            self.state, self._there_s = "there", now
        self.node = node

    def unreached(self, now: float) -> bool:
        """Its actor does not answer, or has no place yet; whether that is news."""
        is_news = self.state != "waiting"
        if is_news:
            self.state, self.node, self.waits_s = "waiting", "", now
            self._yields = False
        self.due_s = now + UNREACHED_S
        return is_news

    def restarts(self, now: float) -> None:
        """Ray has been asked to start it again."""
        self.is_to_restart, self.due_s = False, now + UNREACHED_S

    def leaves(self, *, yields: bool = False) -> None:
        """It is told to: its machine is to go, or it ``yields`` its place to servers."""
        self.state, self._yields = "leaving", yields

    def ended(self, status: int, now: float) -> Next:
        """Its agent has; what is to be done."""
        if status == 0:
            self.state = "over"
            return "nothing"
        if self._yields:
            self.state = "gone"
            return "held"
        if self.state == "leaving" and self.host.bundle is not None:
            self.state = "gone"  # Ray keeps its place where it was
            return "elsewhere"
        is_steady = self.state != "waiting" and now - self._there_s >= STEADY_S
        self._in_a_row = 1 if is_steady else self._in_a_row + 1
        if status == REFUSED and self._in_a_row >= MOST_REFUSALS:
            self.state = "gone"
            return "gone"
        was_told = self.state == "leaving"
        self.state, self.node, self.waits_s = "waiting", "", now
        self.due_s = now + (0.0 if was_told else self._pause_s())
        self.is_to_restart = True
        return "again"

    def _pause_s(self) -> float:
        return float(min(MOST_PAUSE_S, 2.0 ** (self._in_a_row - 1)))


def who_yields(hosts: Iterable[Standing], pending_s: float) -> Standing | None:
    """The trainers' host that is to make room for servers; None: it is not time for that.

    What is left when a machine is gone may be full of trainers, which came back first: then
    no server would ever have a place, and no trainer anything to do. Where one host for
    servers is there, it takes them all. ``pending_s``: for how long Ray has had no place.
    """
    ordered = sorted(hosts, key=lambda one: one.host.name)
    has_servers = any(one.host.has_servers and one.state == "there" for one in ordered)
    is_leaving = any(one.state == "leaving" for one in ordered)
    if pending_s < YIELD_AFTER_S or has_servers or is_leaving:
        return None
    there = [one for one in ordered if one.state == "there" and not one.host.has_servers]
    return there[-1] if there else None


@final
class WaitingPlaces:
    """When is said which hosts have no place."""

    def __init__(self) -> None:
        """None is waited for."""
        self._told: tuple[str, ...] = ()
        self._told_s = 0.0

    def tell(self, hosts: list[Standing], why: str, now: float) -> str | None:
        """What is to be said of them, if it is news, or has not been said for a minute.

        ``why``: what Ray says of the place of servers; empty: they have one.
        """
        since = {
            one.host.name: one.waits_s
            for one in hosts
            if one.state == "waiting" and now - one.waits_s >= TELL_AFTER_S
        }
        names = tuple(sorted(since))
        is_due = bool(why) and now - self._told_s >= TELL_EVERY_S
        if names == self._told and not is_due:
            return None
        self._told = names
        if not names:
            return None
        self._told_s = now
        waited_s = now - min(since.values())
        said = (
            f"waiting for {waited_s:.0f} s for a place in the cluster: {first_few(names)}"
        )
        return f"{said}; of that for servers Ray says: {why}" if why else said
