"""``paceline host``: bring this machine to a job that runs on another one."""

import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.seconds import parse_seconds
from paceline.errors import PREEMPTED_EXIT_CODE, Interrupted
from paceline.launch.hosts import HostPlan, wait_host
from paceline.launch.job import (
    ask_secret,
    tcp_address,
)
from paceline.timing import SystemClock
from paceline.transport.streams import own_host


def host(
    *,
    join: Annotated[
        str, typer.Option(help="Where the job's launcher listens: 10.0.0.1:7070.")
    ],
    advertise: Annotated[
        str | None,
        typer.Option(
            help="An IP address of this machine that all others reach.",
            show_default="that of the way to the launcher",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What to call this machine.", show_default="its own")
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
    join_within: Annotated[
        str,
        typer.Option(
            help="How long to wait for the launcher at first.", show_default="10m"
        ),
    ] = "10m",
) -> None:
    """Run a share of a job's processes on this machine, until the job is over.

    Start it in a folder with the same files as the launcher's working folder. The run's
    secret comes from PACELINE_SECRET_FILE, PACELINE_SECRET, or standard input.
    """
    launcher = tcp_address("--join", join)
    own = advertise or own_host(launcher)
    plan = HostPlan(
        launcher=launcher,
        address=tcp_address("--advertise", f"[{own}]:0" if ":" in own else f"{own}:0").host,
        name=name or socket.gethostname(),
        cores=len(os.sched_getaffinity(0)),
        secret=ask_secret(),
        folder=folder,
        orphan_after_s=parse_seconds("--orphan-after", orphan_after),
        join_within_s=parse_seconds("--join-within", join_within),
    )
    try:
        _say(wait_host(plan, _say, SystemClock()))
    except Interrupted as interrupted:
        _say(str(interrupted))
        raise typer.Exit(PREEMPTED_EXIT_CODE) from None


def _say(text: str) -> None:
    print(f"paceline: {text}", file=sys.stderr)
