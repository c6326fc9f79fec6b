"""A launcher says that the coordinator does not answer."""

from pathlib import Path

from paceline.launch.job.folder import JobDir
from paceline.launch.supervise.launcher import Launcher
from paceline.launch.supervise.supervision import Supervision
from paceline.messages import Exited, JobStatus, LauncherOrders, QueueStatus
from paceline.timing import ManualClock
from paceline.watch.progress import Show


class Away:
    """A link to a coordinator that is away until it is told otherwise."""

    def __init__(self) -> None:
        self.orders: LauncherOrders | None = None

    def note_exit(self, exited: Exited) -> None:
        raise AssertionError(exited)

    def call_report(
        self, timeout_s: float, *, finishing: bool = False, saving: bool = False
    ) -> LauncherOrders | None:
        del timeout_s, finishing, saving
        return self.orders

    def close(self) -> None:
        pass


class Lines(Show):
    """What is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def show(self, status: JobStatus, restarts: int, now: float) -> None:
        pass

    def say(self, text: str) -> None:
        self.said.append(text)

    def close(self) -> None:
        pass


def standing() -> JobStatus:
    queue = QueueStatus(0, 0, 1, 0, 0)
    counts = {"epochs": 0, "records": 0, "tasks_done": 0, "tasks_failed": 0, "steps": 0}
    more = {"total_records": 0, "timeline": 0, "cut": 0, "counters": {}, "metrics": {}}
    return JobStatus(
        state="running", queue=queue, pace="sync", processes=(), **counts, **more
    )


def test_a_coordinator_that_does_not_answer_is_told_of(tmp_path: Path) -> None:
    clock, link, show = ManualClock(), Away(), Lines()
    supervision = Supervision([], ["trainer-0"], 60.0)
    job = JobDir(tmp_path)
    launcher = Launcher(supervision, lambda _: None, job, link, show, clock)
    for _ in range(50):
        launcher._report()
        clock.advance(0.25)
    [told] = show.said
    assert told == (
        "launcher waits for coordinator (coordinator), 10 s: it does not say how the job "
        "stands"
    )
    link.orders = LauncherOrders(status=standing())
    launcher._report()
    assert show.said[1:] == [
        "launcher goes on after 12 s: it has waited for coordinator (coordinator)"
    ]
