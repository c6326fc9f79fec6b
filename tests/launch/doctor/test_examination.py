"""Machines are asked until each, each way and each file is known; then no more."""

from hypothesis import given
from hypothesis import strategies as st

from paceline.launch.doctor.examination import SILENT_S, Examination, Examinee
from paceline.messages.hosts import (
    ExamOrders,
    ExamReport,
    JoinHost,
    MachineFacts,
    ProbeResult,
)

FACTS = MachineFacts(2, 1 << 32, 1 << 32, 4096, {"torch": "2.10"})
WELL = ProbeResult(round_trip_s=0.001, bytes_per_s=1e9)


def coming(token: str) -> JoinHost:
    """A machine that asks to come."""
    return JoinHost(token=token, name=token, address=f"tcp:10.0.0.2:{ord(token)}", cores=2)


class Visitor:
    """A machine that does what it is told."""

    def __init__(self, examination: Examination, token: str) -> None:
        self.examination, self.token = examination, token
        self.one = examination.join(coming(token), 0.0)
        self.probes: dict[str, ProbeResult] = {}
        self.files: dict[str, str] = {}
        self.orders = ExamOrders()

    def ask(self, now: float = 1.0, ahead_s: float = 0.0) -> ExamOrders | str:
        """Report, and hear what is next."""
        report = ExamReport(
            host=self.one.id,
            token=self.token,
            wall_s=100.0 + ahead_s,
            facts=FACTS,
            probes=dict(self.probes),
            files=dict(self.files),
        )
        orders = self.examination.report(report, now, 100.0)
        if isinstance(orders, ExamOrders):
            self.orders = orders
        return orders

    def carry_out(self) -> None:
        """Find out what was ordered."""
        self.probes |= dict.fromkeys(self.orders.probes, WELL)
        wanted = [self.orders.writes, *self.orders.reads]
        self.files |= {name: "" for name in wanted if name}


def visitors(examination: Examination, tokens: str) -> list[Visitor]:
    """Machines that have come, one for each letter."""
    return [Visitor(examination, token) for token in tokens]


def test_nobody_is_asked_anything_before_all_have_come_or_time_is_up() -> None:
    examination = Examination(2, has_files=True)
    [one] = visitors(examination, "a")

    assert one.ask() == ExamOrders()
    examination.begin()
    assert one.ask() == ExamOrders(writes=one.one.file)


def test_one_machine_alone_is_known_once_it_has_reported_and_written() -> None:
    examination = Examination(1, has_files=True)
    [one] = visitors(examination, "a")
    examination.begin()
    assert not examination.is_complete

    one.ask()
    one.carry_out()
    one.ask()

    assert examination.is_complete


@given(st.integers(1, 6), st.booleans(), st.data())
def test_whatever_is_lost_or_repeated_each_tries_each_and_two_ways_never_meet(
    count: int, has_files: bool, data: st.DataObject
) -> None:
    examination = Examination(count, has_files=has_files)
    there = visitors(examination, "abcdef"[:count])
    examination.begin()
    steps = st.tuples(st.sampled_from(there), st.sampled_from(["ask", "carry_out"]))
    for visitor, step in data.draw(st.lists(steps, max_size=40)):
        getattr(visitor, step)()
        busy = [
            h
            for v in there
            for w in v.orders.probes
            for h in (v.one.id, w)
            if w not in v.one.probes
        ]
        assert len(set(busy)) == len(busy)
    for _ in range(4 * count + 9):
        for visitor in there:
            visitor.ask()
            visitor.carry_out()

    assert examination.is_complete
    ids = {visitor.one.id for visitor in there}
    for visitor in there:
        assert visitor.one.probes.keys() == ids - {visitor.one.id}
        files = {other.one.file for other in there} if has_files else set()
        assert visitor.one.files.keys() == files


def test_what_one_could_not_write_nobody_is_to_read() -> None:
    examination = Examination(2, has_files=True)
    one, other = visitors(examination, "ab")
    examination.begin()
    one.files[one.one.file] = "read-only"
    other.files[other.one.file] = ""

    other.ask()
    assert one.ask() == ExamOrders(reads=(other.one.file,))
    assert other.ask() == ExamOrders(probes={one.one.id: (one.one.address, "a")})


def test_who_is_silent_is_lost_and_others_do_not_wait_for_it() -> None:
    examination = Examination(2, has_files=False)
    one, other = visitors(examination, "ab")
    examination.begin()
    one.ask()
    one.carry_out()

    assert examination.look(SILENT_S - 0.1) == []
    one.ask(SILENT_S)
    lost = examination.look(SILENT_S)

    assert [gone.name for gone in lost] == ["b"]
    assert examination.is_complete
    assert "b" in str(other.ask(SILENT_S + 1.0)) or other.one.gone
    assert isinstance(other.ask(SILENT_S + 1.0), str)


def test_the_shortest_way_of_a_report_says_how_far_clocks_are_apart() -> None:
    examination = Examination(1, has_files=False)
    [one] = visitors(examination, "a")

    for ahead_s in (2.0, 2.9, 1.0):
        one.ask(ahead_s=ahead_s)

    assert one.one.clock_s is not None
    assert 2.8 < one.one.clock_s < 3.0


def test_a_retried_join_is_one_machine_and_another_token_is_refused() -> None:
    examination = Examination(1, has_files=False)
    first, again = visitors(examination, "aa")

    assert first.one is again.one
    assert isinstance(first.one, Examinee)
    first.token = "x"
    assert first.ask() == "no machine has come with this token"


def test_all_are_told_that_it_is_over() -> None:
    examination = Examination(1, has_files=False)
    [one] = visitors(examination, "a")
    examination.is_over = True

    assert one.ask() == ExamOrders(is_over=True)
