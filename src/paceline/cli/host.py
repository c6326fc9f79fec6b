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
from typing import Annotated

import typer

from paceline.cli.options import parse_seconds
from paceline.cli.run import run
from paceline.errors import PREEMPTED_EXIT_CODE, Interrupted
from paceline.launch.hosts import Capacity, HostPlan, RunGone, wait_host, wait_own_host
from paceline.launch.job import (
    OwnWish,
    ask_secret,
    candidates,
    own_listening,
    piped_secret,
    tcp_address,
)
from paceline.machine import machine_name
from paceline.timing import Clock, SystemClock

REACHED_S = 30.0  # networks of containers may let the first packets of a new one not pass


def host(  # noqa: PLR0913  (the command line has one parameter for each option)
    *,
    join: Annotated[
        str, typer.Option(help="Where the job's launcher listens: 10.0.0.1:7070.")
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
        typer.Option(help="Trainers it takes at most.", show_default="any", min=0),
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
    join_within: Annotated[
        str,
        typer.Option(
            help="How long to wait for the launcher at first.", show_default="10m"
        ),
    ] = "10m",
    stay: Annotated[
        bool,
        typer.Option(
            "--stay", help="Join again, until the job is over, whenever its run is gone."
        ),
    ] = False,
) -> None:
    """Run a share of a job's processes on this machine, until the job is over.

    Start it in a folder with the same files as the launcher's working folder. The run's
    secret comes from PACELINE_SECRET_FILE, PACELINE_SECRET, or standard input.
    """
    launcher = tcp_address("--join", join)
    wish = OwnWish.of(network, advertise, ports, os.environ)
    join_within_s = parse_seconds("--join-within", join_within)
    clock = SystemClock()
    try:
        plan = HostPlan(
            launcher=launcher,
            own=own_listening(
                wish,
                launcher,
                lambda: wait_own_host(launcher, join_within_s, _say, clock),
                candidates(),
                is_plain=plain,
            ),
            name=name or machine_name(),
            cores=len(os.sched_getaffinity(0)),
            secret=piped_secret() if end_with_stdin else ask_secret(os.environ),
            folder=folder,
            orphan_after_s=parse_seconds("--orphan-after", orphan_after),
            join_within_s=join_within_s,
            is_plain=plain,
            capacity=Capacity(servers, trainers),
            reached_within_s=REACHED_S if stay else 0.0,
        )
        if end_with_stdin:
            threading.Thread(target=_stop_with_stdin, daemon=True).start()
        _say(_wait_stayed(plan, clock) if stay else wait_host(plan, _say, clock))
    except Interrupted as interrupted:
        _say(str(interrupted))
        raise typer.Exit(PREEMPTED_EXIT_CODE) from None
    except RunGone as gone:
        if not gone.is_interrupted:
            raise
        _say(str(gone))
        raise typer.Exit(PREEMPTED_EXIT_CODE) from None


def _wait_stayed(plan: HostPlan, clock: Clock) -> str:
    """Be a host of one run of the job after the other; how the last has ended.

    Each has a folder of its own: what another has left belongs to that.
    """
    for number in itertools.count(2):
        try:
            return wait_host(plan, _say, clock)
        except RunGone as gone:
            _say(f"{gone}; this machine joins again")
        if plan.folder is not None:
            name = plan.folder.name.removesuffix(f"-{number - 1}")
            plan = plan._replace(folder=plan.folder.with_name(f"{name}-{number}"))
    raise AssertionError("numbers do not end")


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
