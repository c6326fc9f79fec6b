"""A host joins once, tells what it has, and is lost with all of it when it is silent."""

import signal

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from paceline.launch.hosts.placement import Capacity
from paceline.launch.hosts.roster import (
    FIRST_REPORT_S,
    KILL_S,
    NEVER_RAN,
    Change,
    Host,
    HostGone,
    ProcessEnded,
    ProcessStarted,
    Roster,
)
from paceline.messages.hosts import HostExit, HostOrders, HostReport, JoinHost
from paceline.watch.summary import Ending, Verdict

TIMEOUT_S = 10.0
STEPS = ("start", "report", "keep", "repeat", "end", "kill", "forget", "look")
TRAINED = Verdict(Ending.TRAINED, "")
OWN = JoinHost(token="", name="home", address="10.0.0.1", cores=2)


def coming(token: str, cores: int = 2) -> JoinHost:
    """A machine that asks to join."""
    return JoinHost(token=token, name=token, address="tcp:10.0.0.2:5", cores=cores)


def joined(roster: Roster, token: str = "b", now: float = 0.0) -> Host:
    """A host that was let in, and has reported."""
    host = roster.join(coming(token), now)
    assert isinstance(host, Host)
    roster.report(report(host), now)
    return host


def look(roster: Roster, until: float) -> list[Change]:
    """What has changed when a launcher that does not stand still has looked until then."""
    changes: list[Change] = []
    for half in range(int(2 * until)):
        changes += roster.look(half / 2)
    return [*changes, *roster.look(until)]


def report(
    host: Host,
    running: dict[int, int] | None = None,
    ended: dict[int, HostExit] | None = None,
    leaves: str = "",
) -> HostReport:
    """What a host tells."""
    return HostReport(
        host=host.id,
        token=host.token,
        running=running or {},
        ended=ended or {},
        leaves=leaves,
    )


def test_a_retried_join_is_one_host() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)

    assert joined(roster, "b") is joined(roster, "b", now=1.0)
    assert joined(roster, "c").id == "host-2"
    assert [host.id for host in roster.hosts] == ["host-0", "host-1", "host-2"]


def test_who_does_not_say_how_many_trainers_it_takes_takes_as_many_as_the_run_says() -> (
    None
):
    roster = Roster(OWN, TIMEOUT_S, 0.0, trainers_per_host=2)
    silent = roster.join(coming("b"), 0.0)
    chosen = roster.join(structs.replace(coming("c"), trainers=3, servers=0), 0.0)

    assert isinstance(silent, Host)
    assert isinstance(chosen, Host)
    assert silent.room.capacity == Capacity(trainers=2)
    assert chosen.room.capacity == Capacity(servers=0, trainers=3)


def test_a_host_is_told_all_that_is_to_be_there_each_time() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    host = joined(roster)
    number = roster.start("server-1", host.id)

    for _ in range(2):
        changes, orders = roster.report(report(host), 1.0)
        assert changes == []
        assert isinstance(orders, HostOrders)
        assert orders.processes[number].role == "server-1"
        assert orders.processes[number].wish == "run"


def test_a_start_and_an_end_are_news_once() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    host = joined(roster)
    number = roster.start("trainer-0", host.id)
    end = HostExit(7, 1, ("last words",))

    assert roster.report(report(host, {number: 7}), 1.0)[0] == [ProcessStarted(number, 7)]
    assert roster.report(report(host, {number: 7}), 1.2)[0] == []
    assert roster.report(report(host, {}, {number: end}), 1.4)[0] == [
        ProcessEnded(number, end)
    ]
    assert roster.report(report(host, {}, {number: end}), 1.6)[0] == []

    roster.forget(number)
    _, orders = roster.report(report(host, {}, {number: end}), 1.8)
    assert isinstance(orders, HostOrders)
    assert orders.processes == {}


def test_a_process_that_ended_between_two_reports_had_started() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    host = joined(roster)
    number = roster.start("trainer-0", host.id)
    end = HostExit(7, 0)

    changes, _ = roster.report(report(host, {}, {number: end}), 1.0)

    assert changes == [ProcessStarted(number, 7), ProcessEnded(number, end)]


def test_a_silent_host_is_lost_with_all_it_had() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    host = joined(roster)
    running, starting = (
        roster.start("server-0", host.id),
        roster.start("trainer-2", host.id),
    )
    roster.report(report(host, {running: 7}), 1.0)

    assert look(roster, 1.0 + TIMEOUT_S - 0.1) == []
    gone, *ends = roster.look(1.0 + TIMEOUT_S)

    assert isinstance(gone, HostGone)
    assert gone.roles == ("server-0", "trainer-2")
    assert gone.reason == "it has been silent for 10 s"
    killed = -signal.SIGKILL
    assert ends == [
        ProcessEnded(running, HostExit(7, killed), host.id),
        ProcessStarted(starting, NEVER_RAN),
        ProcessEnded(starting, HostExit(NEVER_RAN, killed), host.id),
    ]
    assert roster.look(99.0) == []
    assert roster.place("server-0") == "host-0"


def test_a_lost_host_that_is_heard_again_is_told_so_and_its_token_lets_nobody_in() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    host = joined(roster)
    look(roster, TIMEOUT_S)

    changes, told = roster.report(report(host, {1: 7}), 30.0)

    assert changes == []
    assert told == "host-1 is lost to the job: it has been silent for 10 s"
    assert roster.join(coming("b"), 31.0) == told
    assert joined(roster, "another").id == "host-2"


def test_a_host_that_leaves_is_lost_at_once() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    host = joined(roster)

    (gone,), told = roster.report(report(host, leaves="b was told to stop"), 1.0)

    assert isinstance(gone, HostGone)
    assert told == gone.reason == "b was told to stop"


def test_wishes_only_grow() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    host = joined(roster)
    number = roster.start("trainer-0", host.id)
    for wish in ("leave", "kill", "end", "leave"):
        roster.turn(number, wish, 1.0)  # type: ignore[arg-type]  # of these words

    _, orders = roster.report(report(host), 1.0)

    assert isinstance(orders, HostOrders)
    assert orders.processes[number].wish == "kill"


def test_a_killed_process_of_a_host_that_does_not_answer_counts_as_ended() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    mute, heard = joined(roster, "b"), joined(roster, "c")
    there, here = roster.start("server-0", mute.id), roster.start("server-1", heard.id)
    for host, number in ((mute, there), (heard, here)):
        roster.report(report(host, {number: 7}), 1.0)
        roster.turn(number, "kill", 2.0)
    roster.report(report(heard, {here: 7}), 2.0 + KILL_S)

    ends = look(roster, 2.0 + KILL_S)
    assert ends == [ProcessEnded(there, HostExit(7, -9), mute.id)]


def test_a_launcher_that_stood_still_loses_nobody_by_it() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    joined(roster)
    assert look(roster, 5.0) == []
    assert roster.look(65.0) == []
    assert roster.look(65.5) == []
    for half in range(8):
        assert roster.look(66.0 + half / 2) == []
    assert len(roster.look(70.0)) == 1, "it was silent for 5 s before, and has been again"


def test_a_host_is_there_once_it_has_reported() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    host = roster.join(coming("b", cores=64), 0.0)
    assert isinstance(host, Host)
    assert roster.hosts == [roster.own]
    assert roster.place("trainer-0") == roster.own.id
    assert look(roster, FIRST_REPORT_S - 1) == [], "it may compare files for so long"
    [gone] = look(roster, FIRST_REPORT_S)
    assert isinstance(gone, HostGone)
    assert gone.reason == "it has been silent for 120 s"


def test_a_host_is_waited_for_until_it_has_told_all_its_logs() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    host = joined(roster)
    roster.verdict = TRAINED

    _, orders = roster.report(structs.replace(report(host), has_more=True), 1.0)
    assert isinstance(orders, HostOrders)
    assert orders.is_over
    assert roster.untold() == [host]

    roster.report(report(host), 1.0)
    assert roster.untold() == []


def test_all_are_told_that_the_job_is_over() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    host = joined(roster)
    roster.start("trainer-0", host.id)
    roster.verdict = TRAINED
    assert roster.untold() == [host]

    _, orders = roster.report(report(host), 1.0)

    assert orders == HostOrders(processes={}, is_over=True)
    assert roster.untold() == []

    roster.verdict = Verdict(Ending.INTERRUPTED, "interrupted; saved as cut 3")
    _, orders = roster.report(report(host), 1.0)
    assert orders == HostOrders(
        processes={},
        is_over=True,
        goes_on=True,
        status=75,
        ending="interrupted; saved as cut 3",
    )


def test_an_ended_server_keeps_its_room_and_a_trainer_may_find_its_own_taken() -> None:
    roster = Roster(structs.replace(OWN, servers=0, trainers=0), TIMEOUT_S, 0.0)
    taking_one = structs.replace(coming("b"), servers=1, trainers=1)
    host = roster.join(taking_one, 0.0)
    assert isinstance(host, Host)
    roster.report(report(host), 0.0)
    for role in ("server-0", "trainer-0"):
        assert roster.place(role) == host.id
        number = roster.start(role, host.id)
        roster.report(report(host, {}, {number: HostExit(7, 0)}), 1.0)
        roster.forget(number)

    assert roster.num_placed("trainer") == 0
    assert roster.place("server-1") is None
    assert roster.place("server-0") == host.id
    assert roster.place("trainer-1") == host.id
    assert roster.place("trainer-0") is None


def test_who_was_heard_while_nobody_looked_is_lost_one_time_out_after_the_next_look() -> (
    None
):
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    host = joined(roster)
    roster.report(report(host), 60.0)

    for tenth in range(605, 705, 5):
        assert roster.look(tenth / 10) == []
    [gone] = roster.look(60.5 + TIMEOUT_S)

    assert isinstance(gone, HostGone)


class Life:
    """A host and the roster, and what the launcher hears of its processes."""

    def __init__(self) -> None:
        self.roster, self.now = Roster(OWN, TIMEOUT_S, 0.0), 0.0
        self.host = joined(self.roster)
        self.late: HostReport | None = None
        self.running: dict[int, int] = {}
        self.ended: dict[int, HostExit] = {}
        self.started: list[int] = []
        self.news: list[ProcessStarted | ProcessEnded] = []

    def start(self) -> None:
        if self.host in self.roster.hosts:
            self.started.append(self.roster.start("trainer-0", self.host.id))

    def report(self) -> None:
        self.tell(report(self.host, dict(self.running), dict(self.ended)))

    def keep(self) -> None:
        """A report is sent that arrives later, and whose answer is lost."""
        self.late = report(self.host, dict(self.running), dict(self.ended))

    def repeat(self) -> None:
        if self.late is not None:
            self.hear(self.roster.report(self.late, self.now)[0])

    def tell(self, message: HostReport) -> None:
        changes, orders = self.roster.report(message, self.now)
        self.hear(changes)
        if isinstance(orders, HostOrders):
            for number in orders.processes:
                if number not in self.ended:
                    self.running.setdefault(number, 100 + number)

    def end(self) -> None:
        if self.running:
            number, pid = self.running.popitem()
            self.ended[number] = HostExit(pid, 0)

    def kill(self) -> None:
        if self.started:
            self.roster.turn(self.started[-1], "kill", self.now)

    def forget(self) -> None:
        for change in self.news:
            if isinstance(change, ProcessEnded):
                self.roster.forget(change.number)

    def look(self) -> None:
        self.hear(self.roster.look(self.now))

    def hear(self, changes: list[Change]) -> None:
        self.news += [change for change in changes if not isinstance(change, HostGone)]


@given(st.lists(st.sampled_from(STEPS)))
def test_every_process_starts_once_and_ends_once(steps: list[str]) -> None:
    """Whatever is lost or repeated: nobody hears of a start or an end twice, or of none."""
    life = Life()
    for step in steps:
        life.now += 0.5
        getattr(life, step)()
    for _ in range(int(4 * TIMEOUT_S)):
        life.now += 0.5
        life.look()

    assert len(life.news) == 2 * len(life.started)
    for number in life.started:
        first, second = [change for change in life.news if change.number == number]
        assert isinstance(first, ProcessStarted)
        assert isinstance(second, ProcessEnded)


def test_who_was_cut_off_comes_back_only_when_it_has_been_so_everywhere() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    first, second = joined(roster, "b", now=0.0), joined(roster, "c")
    assert roster.place("trainer-0") == first.id
    assert roster.place("trainer-0", is_elsewhere=True) == second.id
    assert roster.place("trainer-0") == second.id, "a role again is where it was"
    assert roster.place("trainer-0", is_elsewhere=True) == roster.own.id
    assert roster.place("trainer-0", is_elsewhere=True) == first.id


def test_on_one_machine_alone_there_is_no_elsewhere() -> None:
    roster = Roster(OWN, TIMEOUT_S, 0.0)
    assert roster.place("trainer-0") == roster.own.id
    assert roster.place("trainer-0", is_elsewhere=True) == roster.own.id
