"""``paceline host``: bring this machine to a job that runs on another one.

``paceline role``: bring it for one role alone, or have it lead. These are `host` and
`paceline.cli.run.run` with an option or two that are given already.
"""

import contextlib
import functools
import inspect
import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from paceline.cli.options import parse_seconds
from paceline.cli.run import run
from paceline.errors import PREEMPTED_EXIT_CODE, Interrupted
from paceline.launch.hosts import (
    AnotherSecret,
    Capacity,
    HostPlan,
    NotLetIn,
    RunGone,
    wait_door,
    wait_host,
    wait_own_host,
)
from paceline.launch.job import (
    JobDir,
    JobDoor,
    OwnWish,
    ask_secret,
    candidates,
    own_listening,
    piped_secret,
    tcp_address,
)
from paceline.machine import machine_name, num_cores, require_linux
from paceline.timing import Deadline, SystemClock

REACHED_S = 30.0  # networks of containers may let the first packets of a new one not pass
REFUSED_S = 1.0  # before a folder whose secret was refused is looked at again
LOOK_AGAIN_S = 20.0  # into the job folder: another run of the job may be elsewhere


def host(  # noqa: PLR0913  (the command line has one parameter for each option)
    *,
    join: Annotated[
        str,
        typer.Option(
            help="Where the job's launcher listens, 10.0.0.1:7070, or its job folder, "
            "shared/job."
        ),
    ],
    advertise: Annotated[
        str | None,
        typer.Option(
            help="What others reach this machine by: an IP address or a name.",
            show_default="its address on the way to the launcher",
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="Its own address is the one in this network or interface: 10.0.0.0/8."
        ),
    ] = None,
    ports: Annotated[
        str | None,
        typer.Option(
            help="Its listeners take ports of these: 7100-7199.", show_default="any"
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What to call this machine.", show_default="its own")
    ] = None,
    servers: Annotated[
        int | None,
        typer.Option(help="Servers it takes at most.", show_default="any", min=0),
    ] = None,
    trainers: Annotated[
        int | None,
        typer.Option(
            help="Trainers it takes at most.",
            show_default="any, or the run's --trainers-per-host",
            min=0,
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where logs go.", show_default="runs/<time>-<script>-<host>"),
    ] = None,
    orphan_after: Annotated[
        str,
        typer.Option(
            help="End when nothing is heard from the launcher for so long.",
            show_default="5m",
        ),
    ] = "5m",
    plain: Annotated[
        bool, typer.Option("--plain", help="Without TLS, as the launcher was told, too.")
    ] = False,
    end_with_stdin: Annotated[
        bool,
        typer.Option(
            "--end-with-stdin",
            help="Read the secret from standard input, and end when that is closed.",
        ),
    ] = False,
    stay: Annotated[
        str,
        typer.Option(
            help="When told to stop, first wait so long for the job to end.",
            show_default="0s",
        ),
    ] = "0s",
    join_within: Annotated[
        str,
        typer.Option(
            help="How long to wait for the launcher at first.", show_default="10m"
        ),
    ] = "10m",
    rejoin: Annotated[
        bool,
        typer.Option(
            "--rejoin", help="Join again, until the job is over, whenever its run is gone."
        ),
    ] = False,
) -> None:
    """Run a share of a job's processes on this machine, until the job is over.

    Start it in a folder with the same files as the launcher's working folder. The run's
    secret comes from PACELINE_SECRET_FILE, PACELINE_SECRET, or standard input; with a job
    folder, from that.
    """
    require_linux("paceline host")
    wish = OwnWish.of(network, advertise, ports, os.environ)
    within_s = parse_seconds("--join-within", join_within)
    most = _Most(
        Capacity(servers, trainers),
        parse_seconds("--orphan-after", orphan_after),
        parse_seconds("--stay", stay),
        REACHED_S if rejoin else 0.0,
    )

    def plan_of(door: JobDoor, join_within_s: float) -> HostPlan:
        return _plan(door, wish, join_within_s, name or machine_name(), folder, most)

    try:
        named = _named(join, is_piped=end_with_stdin, is_plain=plain)
        if end_with_stdin:
            threading.Thread(target=_stop_with_stdin, daemon=True).start()
        if isinstance(named, JobDir):
            _say(_wait_by_folder(named, plan_of, within_s, is_again=rejoin))
        else:
            plan = plan_of(named, within_s)
            _say(_wait_again(plan) if rejoin else wait_host(plan, _say, SystemClock()).text)
    except Interrupted as interrupted:
        _say(str(interrupted))
        raise typer.Exit(PREEMPTED_EXIT_CODE) from None
    except RunGone as gone:
        if not gone.is_interrupted:
            raise
        _say(str(gone))
        raise typer.Exit(PREEMPTED_EXIT_CODE) from None


class _Most(NamedTuple):
    """What a host takes, and for how long it stays."""

    capacity: Capacity
    orphan_after_s: float
    stay_s: float
    reached_within_s: float


def _plan(
    door: JobDoor,
    wish: OwnWish,
    join_within_s: float,
    name: str,
    folder: Path | None,
    most: _Most,
) -> HostPlan:
    def way() -> str:
        return wait_own_host(door.launcher, join_within_s, _say, SystemClock())

    own = own_listening(wish, door.launcher, way, candidates(), is_plain=door.is_plain)
    return HostPlan(
        launcher=door.launcher,
        own=own,
        name=name,
        cores=num_cores(),
        secret=door.secret,
        folder=folder,
        orphan_after_s=most.orphan_after_s,
        join_within_s=join_within_s,
        is_plain=door.is_plain,
        capacity=most.capacity,
        stay_s=most.stay_s,
        reached_within_s=most.reached_within_s,
    )


def _wait_again(plan: HostPlan) -> str:
    """Be a host of one run after the other, at one address; how the last has ended.

    Each has a folder of its own: what another has left belongs to that.
    """
    for number in itertools.count(1):
        try:
            one = plan._replace(folder=_numbered(plan.folder, number))
            return wait_host(one, _say, SystemClock()).text
        except RunGone as gone:
            _say(f"{gone}; this machine joins again")
    raise AssertionError("numbers do not end")


def _numbered(folder: Path | None, number: int) -> Path | None:
    """The folder for the run of that number that a machine is in."""
    if folder is None or number == 1:
        return folder
    return folder.with_name(f"{folder.name}-{number}")


def _named(join: str, *, is_piped: bool, is_plain: bool) -> JobDir | JobDoor:
    """What ``--join`` names: a job folder, since no address has a slash, or an address."""
    if "/" in join:
        return JobDir(Path(join.removeprefix("file://")))
    launcher = tcp_address("--join", join)
    secret = piped_secret() if is_piped else ask_secret(os.environ)
    return JobDoor(launcher, secret, is_plain)


def _wait_by_folder(
    job: JobDir,
    plan_of: Callable[[JobDoor, float], HostPlan],
    within_s: float,
    *,
    is_again: bool,
) -> str:
    """Join a job where its folder says, anew as long as nobody is found there.

    The folder of a run that was killed still says where that one was, until the next: there
    may be nobody, or somebody else. ``is_again``: so it is after each run, too.
    """
    within, number, pause_s = Deadline(SystemClock(), within_s), 1, 0.0
    while True:
        left_s = within.remaining_s()
        door = wait_door(job, left_s, _say, SystemClock(), pause_s=pause_s)
        if door is None:
            return f"the job in {job.path} is over"
        try:
            plan = plan_of(door, min(LOOK_AGAIN_S, within.remaining_s()))
            plan = plan._replace(folder=_numbered(plan.folder, number))
            return wait_host(plan, _say, SystemClock()).text
        except (NotLetIn, AnotherSecret):
            if within.is_over():
                raise
            pause_s = REFUSED_S
        except RunGone as gone:
            if not is_again:
                raise
            _say(f"{gone}; this machine joins again")
            within, number = Deadline(SystemClock(), within_s), number + 1


def _say(text: str) -> None:
    print(f"paceline: {text}", file=sys.stderr)


def _stop_with_stdin() -> None:
    """Whoever has started this process by ssh is gone once nothing more can be read."""
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


def _given(
    command: Callable[..., None], told: str, **given: bool | int
) -> Callable[..., None]:
    """A command of which some options are given already, and not asked for."""

    @functools.wraps(command)
    def with_given(**asked: object) -> None:
        command(**asked, **given)

    signature = inspect.signature(command)
    asked = [one for name, one in signature.parameters.items() if name not in given]
    with_given.__signature__ = signature.replace(parameters=asked)  # type: ignore[attr-defined]
    with_given.__doc__ = told
    return with_given


role = typer.Typer(
    name="role",
    help="One role of a job over several machines, for manifests that list containers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for _kind, _servers, _trainers in (("server", 1, 0), ("trainer", 0, 1)):
    _told = f"Be one {_kind} of a job: paceline host that takes one, and nothing else."
    role.command(_kind)(_given(host, _told, servers=_servers, trainers=_trainers))
_told = "Lead a job whose roles run elsewhere: paceline run --coordinator-only."
_AS_RUN = {"allow_interspersed_args": False}  # options behind the script belong to it
role.command("coordinator", context_settings=_AS_RUN)(
    _given(run, _told, coordinator_only=True)
)
