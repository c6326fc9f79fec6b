"""``paceline doctor``: what would go wrong on these machines, before a job is paid for."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from paceline.cli.options import MachinesSaid, machines, parse_seconds, place_of_cuts
from paceline.cli.streams import table_console, unheeded
from paceline.errors import PREEMPTED_EXIT_CODE, Interrupted
from paceline.launch.doctor import Examinee, ExamResult, ExamWish, wait_examination
from paceline.launch.hosts import Listening
from paceline.launch.job import ON_LOOPBACK, UserScript, require_script
from paceline.machine import require_linux
from paceline.timing import SystemClock
from paceline.watch.summary import EXIT_CODES, Ending

MOST_WAYS = 20  # that are shown


def doctor(  # noqa: PLR0913  (the command line has one parameter for each option)
    script: Annotated[
        str | None, typer.Argument(help="A script that all machines are to have.")
    ] = None,
    *,
    listen: machines.Listen = None,
    await_hosts: machines.AwaitHosts = None,
    network: machines.Network = None,
    advertise: machines.Advertise = None,
    ports: machines.Ports = None,
    hosts: machines.Hosts = None,
    ssh: machines.Ssh = None,
    remote: machines.Remote = None,
    engine: machines.EngineName = None,
    plain: machines.Plain = False,
    within: Annotated[
        str, typer.Option(help="How long machines may take to come.", show_default="10m")
    ] = "10m",
    checkpoints: Annotated[
        str | None,
        typer.Option(help="Folder or URL that all machines are to write and read."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, in the last line.")
    ] = False,
) -> None:
    """Tell what would go wrong between machines that a job is to run on.

    They come as for a run: by --hosts, or by paceline host. Exit code 1 if anything is
    wrong.
    """
    require_linux("paceline doctor")
    user_script = None if script is None else UserScript(script, ())
    if user_script is not None:
        require_script(user_script, Path.cwd())
    own, by_ssh = (network, advertise, ports), (hosts, ssh, remote)
    said = MachinesSaid(listen, own, await_hosts, by_ssh, plain, engine)
    exam = ExamWish(
        said.listening() or Listening(ON_LOOPBACK),
        parse_seconds("--within", within),
        user_script,
        place_of_cuts(checkpoints) or "",
    )
    try:
        result = wait_examination(exam, _say, SystemClock())
    except Interrupted as interrupted:
        _say(f"paceline: {interrupted}")
        raise typer.Exit(PREEMPTED_EXIT_CODE) from None
    if as_json:
        print(json.dumps(_as_dict(result)))
    else:
        with unheeded():
            _print(result, table_console())
            sys.stdout.flush()
    is_wrong = any(finding.is_wrong for finding in result.findings)
    raise typer.Exit(EXIT_CODES[Ending.FAILED] if is_wrong else 0)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _as_dict(result: ExamResult) -> dict[str, Any]:
    ways = [
        {"from": one.name, "to": to.name, **msgspec.structs.asdict(one.probes[to.id])}
        for one, to in _ways(result.examinees)
    ]
    machines = [
        {
            "host": one.id,
            "name": one.name,
            "address": one.address,
            "clock_s": one.clock_s,
            **({} if one.facts is None else msgspec.structs.asdict(one.facts)),
        }
        for one in result.examinees
    ]
    told = [finding._asdict() for finding in result.findings]
    return {"machines": machines, "ways": ways, "findings": told}


def _ways(examinees: Sequence[Examinee]) -> list[tuple[Examinee, Examinee]]:
    return [(one, to) for one in examinees for to in examinees if to.id in one.probes]


def _print(result: ExamResult, console: Console) -> None:
    console.print(_machine_table(result.examinees))
    ways = _ways(result.examinees)
    ways.sort(key=lambda way: way[0].probes[way[1].id].bytes_per_s)
    if ways:
        console.print()
        console.print(_way_table(ways[:MOST_WAYS]))
    if len(ways) > MOST_WAYS:
        console.print(f"and {len(ways) - MOST_WAYS} faster ways")
    console.print()
    for finding in result.findings:
        head = "wrong: " if finding.is_wrong else "note: "
        console.print(
            f"{head}{finding.text}", markup=False, highlight=False, soft_wrap=True
        )
    count = sum(finding.is_wrong for finding in result.findings)
    if not count:
        console.print("nothing is wrong" if result.findings else "all is well")


def _machine_table(examinees: Sequence[Examinee]) -> Table:
    names = ("machine", "address", "cores", "memory", "disk", "files", "Python", "torch")
    table = Table(box=None, pad_edge=False)
    for name in (*names, "clock"):
        table.add_column(name)
    for one in examinees:
        cells = [one.name, one.address.removeprefix("tcp:").rpartition(":")[0]]
        if (facts := one.facts) is not None:
            cells += [
                str(facts.cores),
                f"{facts.memory_bytes / 1e9:,.1f} GB",
                f"{facts.disk_bytes / 1e9:,.1f} GB",
                str(facts.num_files),
                *(facts.versions.get(name, "none") for name in ("Python", "torch")),
                f"{round(one.clock_s or 0.0, 1) + 0.0:+,.1f} s",
            ]
        table.add_row(*map(Text, cells))
    return table


def _way_table(ways: Sequence[tuple[Examinee, Examinee]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("from", "to", "round trip", "rate"):
        table.add_column(name)
    for one, to in ways:
        result = one.probes[to.id]
        if result.error:
            cells = ["-", "not reached"]
        else:
            rate = f"{result.bytes_per_s / 1e6:,.0f} MB/s"
            cells = [
                f"{result.round_trip_s * 1e3:,.2f} ms",
                "small frames only" if result.large_error else rate,
            ]
        table.add_row(*map(Text, (one.name, to.name, *cells)))
    return table
