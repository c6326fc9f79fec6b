"""How a host comes to its launcher: which way it is, and whether it may join.

Waits: for the launcher, with deadlines, and says what for. The main thread.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, final

from paceline.errors import (
    DeadlineExceeded,
    ForeignPeer,
    HandshakeRefused,
    Interrupted,
    JobFailed,
    PeerLost,
    TransportError,
    UsageError,
)
from paceline.launch.guests import GuestHall
from paceline.launch.hosts.placement import Capacity
from paceline.launch.job import JobDir, JobDoor, read_secret, tcp_address
from paceline.launch.processes import Interrupts
from paceline.messages.hosts import ExamJoined, HostJoined, JoinHost
from paceline.messages.shared import Refusal
from paceline.timing import Clock, Deadline
from paceline.transport.address import TcpAddress, TcpListening
from paceline.transport.handshake import Secret
from paceline.transport.patience import PatientConnection
from paceline.transport.streams import own_host
from paceline.watch.summary import Ending

JOIN_ANSWER_S = 15.0  # the launcher dials back meanwhile
LOOK_S = 5.0  # for who has the launcher's name
LOOK_AGAIN_S = 0.5
TOLD_TO_STOP = "this machine was told to stop, and has not joined"


@final
class NotLetIn(JobFailed):
    """No launcher has let this machine in, in time."""


@final
class AnotherSecret(UsageError):  # noqa: N818  (named for what happened)
    """Who answers where the launcher should be is of another secret, run or version."""


@final
class RunGone(JobFailed):
    """A machine is in the run no more, and another run may go on with the job.

    Attributes:
        is_interrupted: the run has ended, and said so; else the machine was lost to it, or
            it to the machine.
    """

    def __init__(self, told: str, *, is_interrupted: bool = False) -> None:
        super().__init__(told)
        self.is_interrupted = is_interrupted


class HostPlan(NamedTuple):
    """What a machine brings to a job.

    ``launcher`` is where the job's launcher listens, ``own`` where this machine's listeners
    are. Nothing is heard for ``orphan_after_s``: the host ends; before it has joined, for
    ``join_within_s``. ``is_plain``: without TLS, as the launcher has it. ``capacity``: what
    it takes at most. Once told to stop it stays for ``stay_s``, if the job may end before.
    ``reached_within_s``: how long the launcher may fail to reach it, or be somebody else.
    ``guests`` are its trainers, in place of processes of its own.
    """

    launcher: TcpAddress
    own: TcpListening
    name: str
    cores: int
    secret: Secret
    folder: Path | None = None
    orphan_after_s: float = 300.0
    join_within_s: float = 600.0
    is_plain: bool = False
    capacity: Capacity = Capacity()
    stay_s: float = 0.0
    reached_within_s: float = 0.0
    guests: GuestHall | None = None


def wait_own_host(
    launcher: TcpAddress, within_s: float, say: Callable[[str], None], clock: Clock
) -> str:
    """This machine's address on its way to the launcher, whose name may yet lead nowhere.

    Raises:
        UsageError: there is no way.
        NotLetIn: nobody is found, or answers, in time.
        Interrupted: this machine is told to stop.
    """
    deadline, told, pause = Deadline(clock, within_s), "", threading.Event()
    with Interrupts() as interrupts:
        while not interrupts.count:
            try:
                return own_host(launcher, LOOK_S)
            except TransportError as error:
                why = str(error)
            if deadline.is_over():
                raise NotLetIn(
                    f"no launcher is found at {launcher} within {within_s:g} s: {why}"
                )
            if why != told:
                say(f"waiting for the launcher at {launcher}: {why}")
                told = why
            pause.wait(LOOK_AGAIN_S)
    raise Interrupted(TOLD_TO_STOP)


def wait_door(
    job: JobDir,
    within_s: float,
    say: Callable[[str], None],
    clock: Clock,
    *,
    pause_s: float = 0.0,
) -> JobDoor | None:
    """Where a job lets machines in, as its folder says; None: the job is over.

    It is looked at after ``pause_s``: who has been refused is not to ask without end.

    Raises:
        UsageError: its secret could be read by others.
        NotLetIn: no run of it that lets machines in is there in time.
        Interrupted: this machine is told to stop.
    """
    deadline, is_told, pause = Deadline(clock, within_s), False, threading.Event()
    with Interrupts() as interrupts:
        pause.wait(pause_s)
        while not interrupts.count:
            run = job.read_run()
            if run is not None and (secret := read_secret(job.secret)) is not None:
                if run.door:
                    launcher = tcp_address(str(job.run_file), run.door)
                    return JobDoor(launcher, secret, run.is_plain)
            elif _is_over(job):
                return None
            if deadline.is_over():
                raise NotLetIn(
                    f"{job.path}: no run of the job lets machines in within {within_s:g} "
                    "s (--join-within): was it started with --listen or --await-hosts?"
                )
            if not is_told:
                say(f"waiting for a run of the job in {job.path} that lets machines in")
                is_told = True
            pause.wait(LOOK_AGAIN_S)
    raise Interrupted(TOLD_TO_STOP)


def _is_over(job: JobDir) -> bool:
    """Whether no run of a job goes on with it, as its last one says."""
    summary = job.read_summary()
    return summary is not None and summary.get("ending") != Ending.INTERRUPTED.value


def wait_joined(
    plan: HostPlan,
    link: PatientConnection,
    message: JoinHost,
    interrupts: Interrupts,
    say: Callable[[str], None],
    clock: Clock,
) -> HostJoined | ExamJoined:
    """Ask to join until the launcher says yes or no, and say what is waited for.

    Raises:
        UsageError: it says no; `AnotherSecret`: it is of another secret, run or version.
        NotLetIn: nobody says anything in time.
        Interrupted: this machine is told to stop.
    """
    deadline = Deadline(clock, plan.join_within_s)
    reached_by: Deadline | None = None
    told = ""
    while not interrupts.count:
        refused: type[UsageError] = UsageError
        try:
            answer = link.call(message, JOIN_ANSWER_S)
        except ForeignPeer as error:  # it may have the launcher's address for a moment
            answer, refused = Refusal(kind="mismatch", text=str(error)), AnotherSecret
        except (PeerLost, DeadlineExceeded, HandshakeRefused) as error:
            answer = None
            why = str(error)
        if isinstance(answer, HostJoined | ExamJoined):
            return answer
        if isinstance(answer, Refusal):
            if answer.kind == "mismatch" and reached_by is None:
                reached_by = Deadline(clock, plan.reached_within_s)
            may_pass = answer.kind == "mismatch" and not (reached_by or deadline).is_over()
            if answer.kind != "not_ready" and not may_pass:
                raise refused(answer.text)
            why = answer.text
        if deadline.is_over():
            raise NotLetIn(
                f"no launcher lets this machine in at {plan.launcher} within "
                f"{plan.join_within_s:g} s: {why}"
            )
        if why != told:
            say(f"waiting for the launcher at {plan.launcher}: {why}")
            told = why
        link.pause()
    raise Interrupted(TOLD_TO_STOP)
