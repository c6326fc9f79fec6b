"""Which trainers cannot reach which servers, by what they tell, and who is lost by that.

::

    one has said so for a time-out      it is lost
    and by then more than half say so   the server is, if there are several trainers

Both are members, heard by the coordinator: no silence tells of it. Who is silent about a
server counts as one who reaches it. Who is lost starts again on another host, where there
is one.

Pure.
"""

from collections.abc import Mapping
from typing import final

from paceline.coordinator.ledgers.members import Loss
from paceline.messages.waits import named

_Server = tuple[str, int]  # its id and incarnation


@final
class Unreached:
    """What trainers have told, by incarnation, since when."""

    def __init__(self, timeout_s: float) -> None:
        """``timeout_s``: after how long in vain one of both is lost."""
        self._timeout_s = timeout_s
        self._since_s: dict[int, dict[_Server, float]] = {}

    def note(self, trainer: int, unreached: Mapping[str, int], now: float) -> None:
        """A trainer tells which servers, {id: incarnation}, it cannot reach just now."""
        if unreached:
            last = self._since_s.get(trainer, {})
            self._since_s[trainer] = {
                server: last.get(server, now) for server in unreached.items()
            }
        else:
            self._since_s.pop(trainer, None)

    def forget(self, trainer: int) -> None:
        """It is lost or gone."""
        self._since_s.pop(trainer, None)

    def drop(self) -> None:
        """The timeline is left: everybody looks for servers anew."""
        self._since_s.clear()

    def excuse(self, seconds: float) -> None:
        """Nobody could be heard for so long, through no fault of theirs."""
        for since_s in self._since_s.values():
            for server in since_s:
                since_s[server] += seconds

    def losses(
        self, trainers: Mapping[str, int], servers: Mapping[str, int], now: float
    ) -> list[Loss]:
        """Who is lost by now, of these, {role id: incarnation}.

        With a server lost all return to a cut, and what trainers have told is void.
        """
        lost: dict[int, Loss] = {}
        roles = {incarnation: trainer for trainer, incarnation in trainers.items()}
        for server in servers.items() if self._since_s else ():
            since_s = {
                trainer: told[server]
                for trainer, told in self._since_s.items()
                if trainer in roles and server in told
            }
            due = [t for t, s in since_s.items() if now - s >= self._timeout_s]
            away = since_s if due else {}  # whoever says so later, all the same
            if 2 * len(away) > len(roles) > 1:
                who = named([roles[trainer] for trainer in away])
                reason = f"{server[0]} is not reached by {who}, of {len(roles)} trainers"
                return [Loss(server[1], "unreached", reason)]
            for trainer in due:
                reason = f"{roles[trainer]} does not reach {server[0]}, which is there"
                lost[trainer] = Loss(trainer, "unreached", reason)
        return sorted(lost.values())
