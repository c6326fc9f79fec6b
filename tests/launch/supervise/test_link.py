"""Exits reach the coordinator once it answers, whatever happened to it in between."""

from collections.abc import Iterator

import pytest

from paceline.errors import PeerLost
from paceline.ids import COORDINATOR, LAUNCHER
from paceline.launch.job.wiring import Wires
from paceline.launch.supervise.launcher import CoordinatorLink
from paceline.messages.shared import Message, Refusal
from paceline.messages.watching import (
    Exited,
    JobStatus,
    LauncherOrders,
    LauncherReport,
    QueueStatus,
)
from paceline.timing import SystemClock
from paceline.transport.service import Peer, Reply

ADDRESS = "inproc:test-link"
STATUS = JobStatus(
    state="running",
    queue=QueueStatus(0, 0, 0, 0, 0),
    pace="sync",
    processes=(),
    epochs=0,
    records=0,
    tasks_done=0,
    tasks_failed=0,
    steps=0,
    metrics={},
    total_records=0,
    timeline=0,
    cut=0,
    counters={},
)
EXIT = Exited("trainer-0", 7, 1)


class StandInCoordinator:
    def __init__(self, answer: Message | None = None) -> None:
        self.reports: list[LauncherReport] = []
        self.answer = answer or LauncherOrders(status=STATUS)

    def received(
        self, peer: Peer, message: LauncherReport, buffers: list[object], reply: Reply
    ) -> None:
        assert (peer.role, buffers) == (LAUNCHER, [])
        self.reports.append(message)
        reply(self.answer)

    def disconnected(self, peer: Peer) -> None:
        pass


@pytest.fixture
def wires() -> Wires:
    return Wires("r1", COORDINATOR, SystemClock())


@pytest.fixture
def link() -> Iterator[CoordinatorLink]:
    launcher = Wires("r1", LAUNCHER, SystemClock())
    link = CoordinatorLink(launcher.to_coordinator_as_launcher(ADDRESS))
    yield link
    link.close()


def test_an_exit_is_kept_until_a_report_is_answered(
    wires: Wires, link: CoordinatorLink
) -> None:
    link.note_exit(EXIT)
    assert link.call_report(0.5) is None

    coordinator = StandInCoordinator()
    with wires.listen_as_coordinator(ADDRESS, coordinator):
        assert link.call_report(0.5) == LauncherOrders(status=STATUS)
        assert link.call_report(0.5, finishing=True) == LauncherOrders(status=STATUS)

    assert coordinator.reports == [
        LauncherReport(exits=(EXIT,)),
        LauncherReport(finishing=True),
    ]


def test_a_report_says_which_roles_have_no_machine(wires: Wires) -> None:
    to_coordinator = Wires("r1", LAUNCHER, SystemClock()).to_coordinator_as_launcher(
        ADDRESS
    )
    link, coordinator = (
        CoordinatorLink(to_coordinator, lambda: "full"),
        StandInCoordinator(),
    )
    with wires.listen_as_coordinator(ADDRESS, coordinator):
        assert link.call_report(0.5) is not None
    link.close()
    assert coordinator.reports == [LauncherReport(no_room="full")]


def test_an_exit_is_kept_while_nothing_can_be_journalled(
    wires: Wires, link: CoordinatorLink
) -> None:
    link.note_exit(EXIT)
    with wires.listen_as_coordinator(ADDRESS, StandInCoordinator(STATUS)):
        assert link.call_report(0.5) == STATUS
    coordinator = StandInCoordinator()
    with wires.listen_as_coordinator(ADDRESS, coordinator):
        assert link.call_report(0.5) is None, "it has to connect again"
        assert link.call_report(0.5) == LauncherOrders(status=STATUS)
    assert coordinator.reports == [LauncherReport(exits=(EXIT,))]


def test_the_link_finds_a_restarted_coordinator(
    wires: Wires, link: CoordinatorLink
) -> None:
    with wires.listen_as_coordinator(ADDRESS, StandInCoordinator()):
        assert link.call_report(0.5) is not None
    link.note_exit(EXIT)
    assert link.call_report(0.5) is None

    successor = StandInCoordinator()
    with wires.listen_as_coordinator(ADDRESS, successor):
        assert link.call_report(0.5) is not None

    assert successor.reports == [LauncherReport(exits=(EXIT,))]


def test_a_refused_report_keeps_the_exits(wires: Wires, link: CoordinatorLink) -> None:
    coordinator = StandInCoordinator(Refusal(kind="not_ready", text="soon"))
    link.note_exit(EXIT)
    with wires.listen_as_coordinator(ADDRESS, coordinator):
        assert link.call_report(0.5) is None
        link.call_report(0.5)

    assert [report.exits for report in coordinator.reports] == [(EXIT,), (EXIT,)]


def test_a_launcher_of_another_run_gets_no_answer(wires: Wires) -> None:
    other = Wires("r2", LAUNCHER, SystemClock())
    link = CoordinatorLink(other.to_coordinator_as_launcher(ADDRESS))
    coordinator = StandInCoordinator()
    with wires.listen_as_coordinator(ADDRESS, coordinator):
        assert link.call_report(0.5) is None
    assert coordinator.reports == []


def test_an_observer_may_only_ask(wires: Wires) -> None:
    observer = Wires("r1", "observer", SystemClock())
    coordinator = StandInCoordinator()
    with (
        wires.listen_as_coordinator(ADDRESS, coordinator),
        observer.observe(ADDRESS) as connection,
        pytest.raises(PeerLost),
    ):
        connection.call(LauncherReport(finishing=True), timeout_s=1.0)
    assert coordinator.reports == []
