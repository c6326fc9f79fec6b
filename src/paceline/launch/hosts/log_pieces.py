"""Which pieces of its logs a host tells the launcher, and which of them are new there.

::

    host       tells of each log that has grown what the launcher does not have yet
    launcher   takes what follows on what it has, and says how far that is

A report that is lost is told again, and one that comes twice has nothing new in it.

Pure: files are read and written elsewhere.
"""

from collections.abc import Mapping
from typing import NamedTuple, final

from paceline.messages.hosts import LogPiece

REPORT_BYTES = 64 << 10  # of all logs in one report

_OWN = "forkserver"  # its log is told by the name of the host


def told_name(host: str, name: str) -> str | None:
    """By which name a host tells of one of its logs; None: not at all."""
    if name == _OWN:
        return host
    return name if may_tell(host, name) else None


def may_tell(host: str, name: str) -> bool:
    """Whether this is a log of a host, or of a role that a host may have."""
    kind, _, number = name.rpartition("-")
    is_numbered = number.isascii() and number.isdecimal()
    return name == host or (kind in {"trainer", "server"} and is_numbered)


class Stretch(NamedTuple):
    """Bytes of a log that are to be told."""

    name: str
    offset: int
    size: int


@final
class ToldLogs:
    """What a host has told of its logs, as far as the launcher has said that it has it."""

    def __init__(self, room: int = REPORT_BYTES) -> None:
        """Nothing was told; ``room`` is for all pieces of a report, in bytes."""
        self._room = room
        self._had: dict[str, int] = {}  # {name: bytes}
        self._turns: dict[str, int] = {}  # {name: when something of it was told last}

    def plan(self, sizes: Mapping[str, int]) -> tuple[list[Stretch], bool]:
        """What is told next, given how long logs are; and whether that leaves more.

        First of the log that was heard of longest ago.
        """
        room = self._room
        planned = []
        for name in sorted(sizes, key=lambda name: self._turns.get(name, 0)):
            had = self._had.get(name, 0)
            grown = sizes[name] - had
            if grown > 0 and room:
                planned.append(Stretch(name, had, min(grown, room)))
            if grown > room:
                return planned, True
            room -= max(0, grown)
        return planned, False

    def answered(self, had: Mapping[str, int]) -> bool:
        """The launcher has told how far it has logs: is it further than before?"""
        news = {name: to for name, to in had.items() if to > self._had.get(name, 0)}
        turn = 1 + max(self._turns.values(), default=0)
        self._had |= news
        self._turns |= dict.fromkeys(had, turn)  # what is not taken lets others pass
        return bool(news)


@final
class TakenLogs:
    """How far the launcher has the logs of all hosts, and where each went on last."""

    def __init__(self) -> None:
        self._had: dict[tuple[str, str], int] = {}  # {(host, name): bytes}
        self._on: dict[str, str] = {}  # {name: host}

    def had(self, host: str, name: str) -> int:
        """How many bytes there are of a log of a host."""
        return self._had.get((host, name), 0)

    def news(self, host: str, piece: LogPiece) -> bytes:
        """What of a piece is not there yet; nothing if something before it is missing."""
        known = self.had(host, piece.name) - piece.offset
        return piece.text[known:] if known >= 0 else b""

    def took(self, host: str, name: str, count: int) -> None:
        """So many bytes more of a log are there."""
        self._had[host, name] = self.had(host, name) + count

    def is_elsewhere(self, host: str, name: str) -> bool:
        """Whether a log went on last on another host, or on none yet."""
        return self._on.get(name) != host

    def goes_on(self, host: str, name: str) -> None:
        """A log goes on on this host."""
        self._on[name] = host
