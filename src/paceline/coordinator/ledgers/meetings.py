"""Meetings: rounds whose values travel between trainers, and who is in them.

::

    Meet      a trainer has come, with the push that it brings
    all with work have come          everyone is told the same `Exchange`
    Tick      the values of all have come to it
    all of exactly this exchange have ticked     the round is closed, as any other

If somebody is lost or comes in between, the exchange of those who are left has another
name: whoever ticked the old one meets again, and brings the values that it still holds.
Nothing of this is durable. A coordinator that has restarted is asked again, and names an
exchange of the same members the same.

Pure.
"""

from collections.abc import Collection
from typing import NamedTuple, final

from paceline.messages.meeting import Bringing, Exchange, Meet, Member, exchange_name


class Differing(NamedTuple):
    """Trainers that came to one round with different things in mind."""

    text: str


@final
class Meetings:
    """Who has come to the open round of each part whose values travel between trainers.

    Attributes:
        open: {part: {trainer: with what it came}}.
    """

    def __init__(self) -> None:
        self.open: dict[int, dict[str, Meet]] = {}

    def came(self, trainer: str, meet: Meet) -> None:
        """A trainer has come, or come again."""
        self.open.setdefault(meet.part, {})[trainer] = meet

    def drop(self, trainer: str) -> None:
        """A trainer is lost or gone: it is in no exchange."""
        for came in self.open.values():
            came.pop(trainer, None)

    def closed(self, part: int) -> None:
        """The round of a part is closed."""
        self.open.pop(part, None)

    def clear(self) -> None:
        """All open rounds are void."""
        self.open.clear()

    def parts(self) -> list[int]:
        """Parts to whose open round somebody has come."""
        return sorted(part for part, came in self.open.items() if came)

    def has(self, part: int, trainer: str) -> bool:
        """Whether this trainer has come to the open round of a part."""
        return trainer in self.open.get(part, {})

    def here(self, part: int) -> set[str]:
        """Who has come to the open round of a part."""
        return set(self.open.get(part, {}))

    def missing(self, part: int, participants: Collection[str]) -> set[str]:
        """Participants that have not come yet."""
        return set(participants) - self.open.get(part, {}).keys()

    def are_under_way(self, participants: Collection[str]) -> bool:
        """Whether an exchange is formed: who enters now would make it void."""
        return any(
            came and not self.missing(part, participants)
            for part, came in self.open.items()
        )

    def decide_exchange(
        self, part: int, timeline: int, participants: Collection[str]
    ) -> Exchange | Differing | None:
        """The exchange of a part, once all participants have come.

        Args:
            part: whose round it is.
            timeline: of the job.
            participants: trainers with work.

        Returns:
            None: somebody is missing. `Differing`: they want different things, or stand at
            different rounds.
        """
        came = {
            trainer: meet
            for trainer, meet in sorted(self.open.get(part, {}).items())
            if trainer in participants
        }
        if not came or self.missing(part, participants):
            return None
        told = {trainer: meet.what for trainer, meet in came.items() if meet.has_values}
        [first, *others] = told.items() if told else [("", "")]
        for trainer, what in others:
            if what != first[1]:
                return Differing(
                    f"{first[0]} came to the round with {first[1]}, {trainer} with {what}: "
                    "in every batch, all trainers must make the same calls in one order"
                )
        at_round = max(meet.round for meet in came.values())
        bringing = [
            Bringing(trainer, meet.incarnation, meet.number, meet.has_values)
            for trainer, meet in came.items()
        ]
        members = tuple(
            Member(
                trainer,
                meet.incarnation,
                meet.number,
                meet.records,
                meet.address,
                meet.has_values,
            )
            for trainer, meet in came.items()
        )
        return Exchange(
            name=exchange_name(timeline, part, at_round, bringing),
            part=part,
            round=at_round,
            members=members,
        )
