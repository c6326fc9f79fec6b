"""``paceline run script.py``: a job as processes of this machine, to its end."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from msgspec import structs
from rich.console import Console

from paceline.cli.options import (
    MachinesSaid,
    leading,
    machines,
    parse_every,
    parse_seconds,
    place_of_cuts,
    tell_behind,
)
from paceline.cli.streams import unheeded
from paceline.config import JobConfig, parse_pace, parse_trainers
from paceline.errors import UsageError
from paceline.launch.echo import echoed, require_roles, warned
from paceline.launch.hosts import Listening, require_shared
from paceline.launch.job import (
    RUNS,
    JobDir,
    UserScript,
    file_of,
    fresh_job_dir,
    job_of,
    log_kind,
    require_named,
    require_script,
    require_utf8,
    resolved,
)
from paceline.launch.local import LocalRun, Reach, RunResult, fresh_run_id, wait_local_run
from paceline.machine import require_linux
from paceline.timing import SystemClock, wall_time_s
from paceline.watch.progress import Show, open_show
from paceline.watch.summary import Ending, tell_ending
from paceline.watch.table import summary_table


def run(  # noqa: PLR0913  (the command line has one parameter for each option)
    script: Annotated[
        str, typer.Argument(help="The training script, or with -m a module.")
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="Its own arguments; options too.", callback=tell_behind),
    ] = None,
    *,
    is_module: Annotated[
        bool, typer.Option("-m", help="SCRIPT is the name of a module, as for python -m.")
    ] = False,
    trainers: Annotated[
        str | None,
        typer.Option(
            help="Trainer processes: 4, or 2:6 (at least, at most).", show_default="1"
        ),
    ] = None,
    ranks_per_trainer: Annotated[
        int | None,
        typer.Option(help="Processes of a trainer, which act as one.", show_default="1"),
    ] = None,
    servers: Annotated[
        int | None, typer.Option(help="Server processes.", show_default="1")
    ] = None,
    pace: Annotated[
        str | None,
        typer.Option(help="sync, async, async:push=4,pull=8", show_default="sync"),
    ] = None,
    job_dir: Annotated[
        Path | None, typer.Option(help="Job folder; default runs/<time>-<script>.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the job in --job-dir, or where that is lost in --checkpoints; "
            "options left out are as they were.",
        ),
    ] = False,
    resume_if_begun: Annotated[
        bool,
        typer.Option(
            "--resume-if-begun",
            help="As --resume if --job-dir holds a job; else begin one there.",
        ),
    ] = False,
    begin_anew: Annotated[
        bool,
        typer.Option(
            "--begin-anew",
            help="With --resume: from the start, if the job's checkpoints are gone.",
        ),
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Seed of row initialization.", show_default="0")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(help="Silence that counts as death.", show_default="10s")
    ] = None,
    first_batch: Annotated[
        str | None,
        typer.Option(help="What a process's first batch may take.", show_default="30m"),
    ] = None,
    checkpoint_every: Annotated[
        str | None,
        typer.Option(help="Between checkpoints: 60s, 1000steps, off.", show_default="60s"),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(help="Checkpoints that are kept.", show_default="2")
    ] = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            help="Folder or URL of checkpoints.", show_default="JOB_DIR/checkpoints"
        ),
    ] = None,
    disk_wait: Annotated[
        str | None,
        typer.Option(
            help="How long to wait for space on a full disk.", show_default="for ever"
        ),
    ] = None,
    listen: machines.Listen = None,
    network: machines.Network = None,
    advertise: machines.Advertise = None,
    ports: machines.Ports = None,
    await_hosts: machines.AwaitHosts = None,
    hosts: machines.Hosts = None,
    ssh: machines.Ssh = None,
    remote: machines.Remote = None,
    engine: machines.EngineName = None,
    trainers_per_host: machines.TrainersPerHost = None,
    trainer_resources: machines.TrainerResources = None,
    no_upload: machines.NoUpload = False,
    plain: machines.Plain = False,
    coordinator_only: Annotated[
        bool,
        typer.Option("--coordinator-only", help="With --listen: no other role here."),
    ] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option(help="Module or .py file of yours that registers what servers need."),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Write its numbers to tensorboard:FOLDER, wandb, mlflow ..."),
    ] = None,
    dashboard: Annotated[
        bool,
        typer.Option(
            "--dashboard", help="Show the job in the browser while it runs; says where."
        ),
    ] = False,
    tee: Annotated[
        list[str] | None,
        typer.Option(help="A role whose output is shown here, too: trainer-0, trainer."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON, in the last line.")
    ] = False,
) -> None:
    """Train with several processes on this machine, or on several: --hosts, --engine.

    Options behind the script belong to the script.
    """
    said = {
        "trainers": trainers,
        "ranks_per_trainer": ranks_per_trainer,
        "servers": servers,
        "pace": pace,
        "seed": seed,
        "timeout": timeout,
        "first_batch": first_batch,
        "checkpoint_every": checkpoint_every,
        "keep": keep,
        "disk_wait": disk_wait,
    }
    own, by_ssh = (network, advertise, ports), (hosts, ssh, remote)
    on_ray = machines.RaySaid(trainer_resources, no_upload)
    others = MachinesSaid(
        *(listen, own, await_hosts, by_ssh, plain, engine, trainers_per_host, on_ray)
    )
    asked = RunAsked(
        UserScript(script, tuple(arguments or ()), is_module),
        said,
        Goal(job_dir, resume, resume_if_begun, begin_anew, checkpoints),
        plugin or (),
        RunBeside(track or (), dashboard, tee or ()),
        lambda: leading(others.listening()) if coordinator_only else others.listening(),
    )
    result = wait_asked(asked, lambda: open_show(sys.stderr))
    _tell_end(result, tee or (), as_json=as_json)
    raise typer.Exit(result.verdict.exit_code)


class Goal(NamedTuple):
    """Which job is run: one that begins, or one that goes on; as options say it."""

    job_dir: Path | None = None
    resume: bool = False
    resume_if_begun: bool = False
    begin_anew: bool = False
    checkpoints: str | None = None


class RunBeside(NamedTuple):
    """What stands beside a run."""

    track: Sequence[str] = ()
    dashboard: bool = False
    tee: Sequence[str] = ()


class RunAsked(NamedTuple):
    """A run as options say it; ``said`` by the names of `run`, as `settings` takes them."""

    script: UserScript
    said: Mapping[str, Any]
    goal: Goal
    plugins: Sequence[str] = ()
    beside: RunBeside = RunBeside()
    listening: Callable[[], Listening | None] = lambda: None


def wait_asked(asked: RunAsked, open_show: Callable[[], Show]) -> RunResult:
    """Run what is asked for to its end; all of it is checked before a folder is made.

    Raises:
        UsageError: what is asked for cannot be; and as of `wait_local_run`.
    """
    require_linux("paceline run")
    script, goal = asked.script, asked.goal
    job_dir, place = goal.job_dir, place_of_cuts(goal.checkpoints)
    require_script(script, Path.cwd())
    require_utf8("--job-dir", str((job_dir or RUNS).absolute()))
    is_resumed = goal.resume or (goal.resume_if_begun and _has_job(job_dir))
    require_roles(asked.beside.tee)
    _require_goal(goal, is_resumed=is_resumed)
    plugins = resolved(asked.plugins, file_of(script)) if asked.plugins else None
    chosen = {
        **settings(asked.said),
        "begins_anew": goal.begin_anew,
        "checkpoints": place,
        "plugins": plugins,
    }
    listening = asked.listening()
    config = _config(chosen, _last_run(job_dir, place) if is_resumed else None)
    if listening is not None:
        require_shared(config)
    job = JobDir(job_dir or fresh_job_dir(RUNS, file_of(script), wall_time_s()))
    with closing(open_show()) as show, _standing_beside(job, show, asked.beside):
        return wait_local_run(
            LocalRun(config, script, job, is_resumed),
            show,
            SystemClock(),
            reach=Reach(listening=listening),
        )


def _require_goal(goal: Goal, *, is_resumed: bool) -> None:
    if is_resumed and goal.job_dir is None and goal.checkpoints is None:
        raise UsageError(
            "--resume goes on with a job: name its folder with --job-dir, or where that is "
            "lost with its machine, the place of its checkpoints with --checkpoints"
        )
    if goal.begin_anew and not is_resumed:
        raise UsageError(
            "--begin-anew belongs to --resume: it lets a job whose checkpoints are gone "
            "train from the start; a new job begins there without it"
        )


@contextmanager
def _standing_beside(job: JobDir, show: Show, beside: RunBeside) -> Iterator[None]:
    """What stands beside a run loads when it is asked for: few want it."""
    with ExitStack() as stack:
        if beside.track:
            from paceline.trackers import parse_target, trackers_beside  # noqa: PLC0415

            targets = [parse_target(text) for text in beside.track]
            stack.enter_context(trackers_beside(job, targets, show.say))
        if beside.dashboard:
            from paceline.dashboard import dashboard_beside  # noqa: PLC0415

            stack.enter_context(dashboard_beside(job, show.say))
        stack.enter_context(warned(job.logs, show.say))
        if beside.tee:
            stack.enter_context(echoed(job.logs, beside.tee, show.say))
        yield


def settings(said: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `JobConfig` as options say them, by the names of `run`; None: nothing.

    A pace may be one already.

    Raises:
        UsageError: one cannot be read.
    """
    trainers, pace, every = said["trainers"], said["pace"], said["checkpoint_every"]
    least, most = parse_trainers(trainers) if trainers is not None else (None, None)
    return {
        "trainers": least,
        "most_trainers": most,
        "ranks_per_trainer": said["ranks_per_trainer"],
        "servers": said["servers"],
        "pace": parse_pace(pace) if isinstance(pace, str) else pace,
        "seed": said["seed"],
        "timeout_s": _seconds("--timeout", said["timeout"]),
        "first_batch_s": _seconds("--first-batch", said["first_batch"]),
        "keep_cuts": said["keep"],
        "disk_wait_s": _seconds("--disk-wait", said["disk_wait"]),
        **_every(every),
    }


def _tell_end(result: RunResult, tee: Sequence[str], *, as_json: bool) -> None:
    """The summary, then how the run ended and what is to be done: who looks sees it last.

    JSON is for programs, which read the last line of standard output. What ``tee`` has
    shown of a log is not shown again.
    """
    if not as_json:
        with unheeded():
            Console(emoji=False).print(summary_table(result.summary))
            sys.stdout.flush()
    verdict = result.verdict
    if verdict.ending is not Ending.TRAINED:
        told = tell_ending(verdict.ending.value, verdict.reason)
        if verdict.role in tee or log_kind(verdict.role) in tee:
            told = told.partition("\n")[0].removesuffix(":") + " stands above"
        print(f"paceline: {told}", file=sys.stderr)
    for said in result.said:
        print(f"paceline: {said}", file=sys.stderr)
    if as_json:
        print(json.dumps(result.summary.as_dict()))


def _has_job(job_dir: Path | None) -> bool:
    if job_dir is None:
        raise UsageError("--resume-if-begun looks into a folder: name it with --job-dir")
    return JobDir(job_dir).config.exists()


def _last_run(job_dir: Path | None, checkpoints: str | None) -> JobConfig:
    """The job that goes on, as its folder says it, or else its checkpoints."""
    is_lost = job_dir is None or not JobDir(job_dir).config.exists()
    if checkpoints is not None and is_lost:
        return job_of(checkpoints)
    assert job_dir is not None, "one of both is named"
    return JobDir(job_dir).read_config()


def _config(chosen: dict[str, Any], last: JobConfig | None) -> JobConfig:
    """The job as the options say it; as it was in its last run where they are silent."""
    fields = {name: value for name, value in chosen.items() if value is not None}
    if last is None:
        return JobConfig(run=fresh_run_id(), **fields)
    require_named(last.plugins, fields.get("plugins", ()))
    if fields.get("seed", last.seed) != last.seed:
        raise UsageError(
            f"--seed {fields['seed']}: the job began with seed {last.seed}, and rows that "
            "are made from now on must be as if they had been made then"
        )
    if fields.get("pace", last.pace) != last.pace:
        raise UsageError(
            f"--pace {fields['pace']}: the job began with {last.pace}, and goes on at the "
            f"pace that it has; change it with paceline pace, when it runs"
        )
    if fields.get("ranks_per_trainer", last.ranks_per_trainer) != last.ranks_per_trainer:
        raise UsageError(
            f"--ranks-per-trainer {fields['ranks_per_trainer']}: the job began with "
            f"{last.ranks_per_trainer}, and its tasks were cut for that"
        )
    if fields.get("checkpoints", last.checkpoints) != last.checkpoints:
        raise UsageError(
            f"--checkpoints {fields['checkpoints']}: the job's checkpoints lie in "
            f"{last.checkpoints or 'its folder'}; leave the option out"
        )
    return JobConfig(**{**structs.asdict(last), **fields, "run": fresh_run_id()})


def _seconds(option: str, text: str | None) -> float | None:
    return None if text is None else parse_seconds(option, text)


def _every(text: str | None) -> dict[str, float]:
    if text is None:
        return {}
    every = parse_every("--checkpoint-every", text)
    return {"cut_every_s": every.seconds, "cut_every_steps": every.steps}
