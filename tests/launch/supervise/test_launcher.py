"""The launcher's loop, with stand-in processes and a stand-in coordinator."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.launch.job.folder import JobDir
from paceline.launch.processes.process import Child, spawn
from paceline.launch.processes.signals import Interrupts
from paceline.launch.supervise.launcher import Ended, Launcher
from paceline.launch.supervise.run_events import NoRoom, Start
from paceline.launch.supervise.supervision import Supervision
from paceline.messages.watching import Exited, JobStatus, LauncherOrders, QueueStatus
from paceline.timing import SystemClock
from paceline.watch.progress import Show
from paceline.watch.summary import Ending, Verdict

pytestmark = [pytest.mark.slow, pytest.mark.system]

FOREVER = "exec sleep 1000"


def status(records: int = 0) -> JobStatus:
    return JobStatus(
        state="running",
        queue=QueueStatus(0, 0, 1, 0, 0),
        pace="sync",
        processes=(),
        epochs=1,
        records=records,
        tasks_done=1,
        tasks_failed=0,
        steps=5,
        metrics={},
        total_records=0,
        timeline=0,
        cut=0,
        counters={},
    )


class StandInLink:
    """Answers every report with ``answer(number of reports so far)``."""

    def __init__(self, answer: Callable[[int], LauncherOrders | None]) -> None:
        self.answer = answer
        self.exits: list[Exited] = []
        self.reports = 0
        self.is_closed = False
        self.is_saving, self.is_interrupted = False, False

    def note_exit(self, exited: Exited) -> None:
        self.exits.append(exited)

    def call_report(
        self,
        timeout_s: float,
        *,
        finishing: bool = False,
        saving: bool = False,
        interrupted: bool = False,
    ) -> LauncherOrders | None:
        del timeout_s, finishing
        self.is_saving, self.is_interrupted = saving, interrupted
        self.reports += 1
        return self.answer(self.reports)

    def close(self) -> None:
        self.is_closed = True


class Silent(Show):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def _draw(self, status: JobStatus, restarts: int, now: float) -> None:
        pass

    def say(self, text: str) -> None:
        self.said.append(text)

    def close(self) -> None:
        pass


class Run:
    """A job whose roles run shell scripts; each start of a role is noted."""

    def __init__(self, tmp_path: Path, scripts: dict[str, str], link: StandInLink) -> None:
        self.job = JobDir(tmp_path / "job")
        self.job.logs.mkdir(parents=True)
        self.link = link
        self.show = Silent()
        self.started: list[str] = []
        self.asked = self.not_yet = 0
        self.without_room: list[str] = []  # one is taken off for each time
        self.scripts = scripts
        servers = [role for role in scripts if role.startswith("server")]
        trainers = [role for role in scripts if role.startswith("trainer")]
        self.supervision = Supervision(servers, trainers, 10.0)

    def start(self, wanted: Start) -> Child | NoRoom | None:
        role = wanted.role
        if role in self.without_room:
            self.without_room.remove(role)
            return NoRoom(role)
        self.asked += 1
        if self.asked <= self.not_yet:
            return None
        self.started.append(role)
        script = self.scripts.get(role, FOREVER)
        return spawn(role, ["sh", "-c", script], os.environ, self.job.log(role))

    def wait_ended(self, interrupts: Interrupts | None = None) -> Ended:
        launcher = Launcher(
            self.supervision,
            self.start,
            self.job,
            self.link,
            self.show,
            SystemClock(),
        )
        return launcher.wait_ended(interrupts or Interrupts())


def test_a_job_whose_trainers_exit_cleanly_is_trained(tmp_path: Path) -> None:
    scripts = {"server-0": FOREVER, "trainer-0": "exit 0", "trainer-1": "exit 0"}
    link = StandInLink(lambda n: LauncherOrders(status=status(n)))

    ended = Run(tmp_path, scripts, link).wait_ended()

    assert ended.verdict.ending is Ending.TRAINED
    assert ended.status is not None
    assert {(e.role, e.code) for e in link.exits} == {("trainer-0", 0), ("trainer-1", 0)}
    assert link.is_closed


def test_a_start_that_is_not_possible_yet_is_tried_again(tmp_path: Path) -> None:
    link = StandInLink(lambda n: LauncherOrders(status=status(n)))
    run = Run(tmp_path, {"trainer-0": "exit 0"}, link)
    run.not_yet = 5

    ended = run.wait_ended()

    assert ended.verdict.ending is Ending.TRAINED
    assert sorted(run.started) == ["coordinator", "trainer-0"]
    assert run.supervision.restarts["trainer"] == 0


def test_who_has_no_room_starts_once_there_is_some_and_nobody_waits_for_who_never_has(
    tmp_path: Path,
) -> None:
    link = StandInLink(lambda n: LauncherOrders(status=status(n)))
    run = Run(tmp_path, {"trainer-0": "exit 0", "trainer-1": "exit 0"}, link)
    run.without_room = ["trainer-0", *["trainer-1"] * 99]

    ended = run.wait_ended()

    assert ended.verdict.ending is Ending.TRAINED
    assert run.started == ["coordinator", "trainer-0"]
    assert run.supervision.restarts["trainer"] == 0


def test_a_trainer_that_crashes_once_is_restarted_and_its_exit_reported(
    tmp_path: Path,
) -> None:
    once = f"test -e {tmp_path}/crashed || {{ touch {tmp_path}/crashed; exit 1; }}"
    link = StandInLink(lambda n: LauncherOrders(status=status(n)))
    run = Run(tmp_path, {"trainer-0": once}, link)

    ended = run.wait_ended()

    assert ended.verdict.ending is Ending.TRAINED
    assert run.started.count("trainer-0") == 2
    assert [exited.code for exited in link.exits] == [1, 0]
    assert run.show.said == ["trainer-0 ended with exit code 1 (logs/trainer-0.log)"]
    assert run.supervision.failures.told() == {
        "trainer-0": "trainer-0 failed on the way, once: exit code 1"
    }
    assert run.supervision.restarts["trainer"] == 1


def test_a_script_that_always_crashes_fails_the_job_and_shows_why(tmp_path: Path) -> None:
    crash = "echo NameError: name is not defined; exit 1"
    link = StandInLink(lambda _: LauncherOrders(status=status()))

    ended = Run(tmp_path, {"trainer-0": crash}, link).wait_ended()

    assert ended.verdict.ending is Ending.FAILED
    assert "trainer-0 died 4 times in a row" in ended.verdict.reason
    assert "NameError: name is not defined" in ended.verdict.reason
    assert "trainer-0.log" in ended.verdict.reason


def test_a_script_with_wrong_usage_is_started_once_and_its_error_shown(
    tmp_path: Path,
) -> None:
    refused = "echo \"UsageError: share: 'x' is shared already\"; exit 2"
    link = StandInLink(lambda _: LauncherOrders(status=status()))
    run = Run(tmp_path, {"trainer-0": refused}, link)

    ended = run.wait_ended()

    assert ended.verdict.exit_code == 1
    assert "UsageError: share: 'x' is shared already" in ended.verdict.reason
    assert ended.verdict.role == "trainer-0"
    assert run.supervision.restarts["trainer"] == 0


def test_a_server_that_must_be_replaced_is_killed_and_started_again(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    def answer(n: int) -> LauncherOrders:
        is_written = pid_file.exists() and pid_file.read_text().endswith("\n")
        replace = {"server-0": int(pid_file.read_text().split()[0])} if is_written else {}
        return LauncherOrders(status=status(n), replace=replace)

    script = f"echo $$ >> {pid_file}; {FOREVER}"
    done = f"until test $(wc -l < {pid_file}) -ge 2; do sleep 0.05; done"
    link = StandInLink(answer)
    run = Run(tmp_path, {"server-0": script, "trainer-0": done}, link)

    ended = run.wait_ended()

    assert ended.verdict.ending is Ending.TRAINED
    assert [(e.role, e.code) for e in link.exits if e.role == "server-0"] == [
        ("server-0", -signal.SIGKILL)
    ]
    assert run.started.count("server-0") == 2
    assert "killing server-0: it is dead to the coordinator" in run.show.said
    assert not [said for said in run.show.said if "killed from outside" in said]


def test_ctrl_c_lets_trainers_leave_and_takes_a_cut_before_the_end(tmp_path: Path) -> None:
    def answer(n: int) -> LauncherOrders:
        if n == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return LauncherOrders(status=status(n), is_saved=link.is_saving)

    leaving = "trap 'exit 75' TERM; while true; do sleep 0.05; done"
    scripts = {"server-0": FOREVER, "trainer-0": leaving}
    link = StandInLink(answer)

    with Interrupts() as interrupts:
        ended = Run(tmp_path, scripts, link).wait_ended(interrupts)

    assert ended.verdict.ending is Ending.INTERRUPTED
    assert "saved as cut 0" in ended.verdict.reason
    assert [(e.role, e.code) for e in link.exits] == [("trainer-0", 75)]


def test_an_operator_interrupts_as_ctrl_c_does_and_the_coordinator_hears_it_is_known(
    tmp_path: Path,
) -> None:
    told: list[bool] = []

    def answer(n: int) -> LauncherOrders:
        told.append(link.is_interrupted)
        return LauncherOrders(
            status=status(n), is_saved=link.is_saving, is_interrupted=n == 2
        )

    leaving = "trap 'exit 75' TERM; while true; do sleep 0.05; done"
    scripts = {"server-0": FOREVER, "trainer-0": leaving}
    link = StandInLink(answer)
    with Interrupts() as interrupts:
        ended = Run(tmp_path, scripts, link).wait_ended(interrupts)

    assert ended.verdict.ending is Ending.INTERRUPTED
    assert "saved as cut 0" in ended.verdict.reason
    assert told[:3] == [False, False, True]


def test_ctrl_c_once_ends_at_once_what_an_operator_has_interrupted(tmp_path: Path) -> None:
    def answer(n: int) -> LauncherOrders:
        if n == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return LauncherOrders(status=status(n), is_interrupted=n == 2)

    stays = "trap '' TERM; while true; do sleep 0.05; done"
    link = StandInLink(answer)
    run = Run(tmp_path, {"server-0": FOREVER, "trainer-0": stays}, link)
    with Interrupts() as interrupts:
        ended = run.wait_ended(interrupts)

    assert ended.verdict == Verdict(Ending.INTERRUPTED, "interrupted")


def test_sigterm_hurries_nobody_whom_an_operator_has_interrupted(tmp_path: Path) -> None:
    def answer(n: int) -> LauncherOrders:
        if n == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        is_saved = link.is_saving and n > 5
        return LauncherOrders(status=status(n), is_saved=is_saved, is_interrupted=n == 2)

    leaving = "trap 'exit 75' TERM; while true; do sleep 0.05; done"
    link = StandInLink(answer)
    run = Run(tmp_path, {"server-0": FOREVER, "trainer-0": leaving}, link)
    with Interrupts() as interrupts:
        ended = run.wait_ended(interrupts)

    assert "saved as cut 0" in ended.verdict.reason


def test_ctrl_c_twice_ends_every_process_at_once(tmp_path: Path) -> None:
    def answer(n: int) -> LauncherOrders:
        if n in {2, 3}:
            os.kill(os.getpid(), signal.SIGINT)
        return LauncherOrders(status=status(n))

    scripts = {
        "server-0": f"echo $$ > {tmp_path}/pid; {FOREVER}",
        "trainer-0": "trap '' TERM; while true; do sleep 0.05; done",
    }
    link = StandInLink(answer)
    run = Run(tmp_path, scripts, link)

    with Interrupts() as interrupts:
        ended = run.wait_ended(interrupts)

    assert ended.verdict.ending is Ending.INTERRUPTED
    assert ended.status is not None
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_coordinator_that_never_spoke_is_not_waited_for_after_ctrl_c(
    tmp_path: Path,
) -> None:
    def answer(n: int) -> None:
        if n == 2:
            os.kill(os.getpid(), signal.SIGINT)

    link = StandInLink(answer)
    run = Run(tmp_path, {"trainer-0": FOREVER}, link)

    with Interrupts() as interrupts:
        ended = run.wait_ended(interrupts)

    assert ended.verdict.ending is Ending.INTERRUPTED
    assert ended.status is None


def test_no_process_is_left_when_one_cannot_be_started(tmp_path: Path) -> None:
    run = Run(tmp_path, {"trainer-0": FOREVER}, StandInLink(lambda _: None))
    run.scripts["coordinator"] = f"echo $$ > {tmp_path}/pid; {FOREVER}"

    def start(role: str) -> Child | None:
        if role == "coordinator":
            return Run.start(run, role)
        raise OSError("no more processes")

    run.start = start

    with pytest.raises(OSError, match="no more processes"):
        run.wait_ended()

    assert run.link.is_closed
