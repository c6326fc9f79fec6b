"""Whatever reports are lost or come twice, each byte of a log arrives once, in order."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from paceline.launch.hosts.log_pieces import (
    REPORT_BYTES,
    Stretch,
    TakenLogs,
    ToldLogs,
    may_tell,
    told_name,
)
from paceline.messages.hosts import LogPiece

ROOM = 8  # of a report
NAMES = ("trainer-0", "trainer-1", "host-1")
GROWTH = st.tuples(st.sampled_from(NAMES), st.integers(0, 3 * ROOM))
# What becomes of a report: how much the launcher's disk takes of each piece, how often it
# arrives, whether it is answered.
FATE = st.tuples(st.integers(0, ROOM), st.integers(0, 2), st.booleans())


class Ends:
    """A host and the launcher, and what lies with each."""

    def __init__(self) -> None:
        self.logs: dict[str, bytes] = defaultdict(bytes)
        self.kept: dict[str, bytes] = defaultdict(bytes)
        self.telling, self.taking = ToldLogs(ROOM), TakenLogs()

    def grow(self, name: str, size: int) -> None:
        start = len(self.logs[name])
        self.logs[name] += bytes(n % 251 for n in range(start, start + size))

    def told(self) -> tuple[list[LogPiece], bool]:
        sizes = {name: len(text) for name, text in self.logs.items()}
        planned, has_more = self.telling.plan(sizes)
        pieces = [
            LogPiece(name=name, offset=at, text=self.logs[name][at : at + size])
            for name, at, size in planned
        ]
        return pieces, has_more

    def take(self, pieces: list[LogPiece], room: int = ROOM) -> dict[str, int]:
        for piece in pieces:
            text = self.taking.news("host-1", piece)[:room]
            self.kept[piece.name] += text
            self.taking.took("host-1", piece.name, len(text))
        return {piece.name: self.taking.had("host-1", piece.name) for piece in pieces}


@given(st.lists(st.tuples(GROWTH, FATE), max_size=30))
def test_all_of_each_log_arrives_once(
    story: list[tuple[tuple[str, int], tuple[int, int, bool]]],
) -> None:
    ends = Ends()
    for (name, size), (room, times, is_answered) in story:
        ends.grow(name, size)
        pieces, _ = ends.told()
        assert sum(len(piece.text) for piece in pieces) <= ROOM
        for _ in range(times):
            had = ends.take(pieces, room)
            if is_answered:
                ends.telling.answered(had)
        for log, text in ends.kept.items():
            assert ends.logs[log].startswith(text)

    for _ in range(100):  # more than all of it takes
        pieces, _ = ends.told()
        ends.telling.answered(ends.take(pieces))
    assert ends.told() == ([], False)
    assert {k: v for k, v in ends.kept.items() if v} == {
        k: v for k, v in ends.logs.items() if v
    }


def test_a_log_that_never_rests_does_not_keep_others_from_being_told() -> None:
    telling = ToldLogs()
    loud, quiet = 10 * REPORT_BYTES, 5
    sizes = {"trainer-0": loud, "trainer-1": quiet}

    [first], has_more = telling.plan(sizes)
    assert (first, has_more) == (Stretch("trainer-0", 0, REPORT_BYTES), True)
    assert telling.answered({"trainer-0": REPORT_BYTES})

    second, has_more = telling.plan(sizes)
    assert has_more
    assert second == [
        Stretch("trainer-1", 0, quiet),
        Stretch("trainer-0", REPORT_BYTES, REPORT_BYTES - quiet),
    ]


def test_an_answer_that_brings_nothing_is_no_progress() -> None:
    telling = ToldLogs()
    assert not telling.answered({"trainer-0": 0})
    assert telling.answered({"trainer-0": 3})
    assert not telling.answered({"trainer-0": 3})


def test_what_follows_a_gap_is_not_taken() -> None:
    taking = TakenLogs()
    taking.took("host-1", "trainer-0", 3)

    def news(offset: int, text: bytes) -> bytes:
        return taking.news("host-1", LogPiece(name="trainer-0", offset=offset, text=text))

    assert news(4, b"later") == b""
    assert news(3, b"next") == b"next"
    assert news(1, b"bcde") == b"de"
    assert taking.had("host-2", "trainer-0") == 0


def test_a_host_tells_of_its_roles_and_of_itself_only() -> None:
    assert told_name("host-1", "forkserver") == "host-1"
    assert told_name("host-1", "trainer-0") == "trainer-0"
    assert told_name("host-1", "coordinator") is None
    for name in ("host-2", "coordinator", "forkserver", "trainer", "trainer-0/../../x-1"):
        assert not may_tell("host-1", name)
    assert may_tell("host-1", "host-1")
    assert may_tell("host-1", "server-12")
