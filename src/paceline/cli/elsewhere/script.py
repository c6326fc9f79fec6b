"""``paceline script slurm``: a batch script for who runs jobs by submitting them."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli.run import run
from paceline.errors import UsageError
from paceline.launch.engines import BatchJob, host_script, run_script
from paceline.launch.job import UserScript, file_of

script = typer.Typer(
    name="script",
    help="Write what is submitted to a batch system, to standard output.",
    no_args_is_help=True,
    callback=lambda: None,  # a group, also of one command
    rich_markup_mode=None,
)
_GIVEN = {  # what the script says itself
    "job_dir": "--job-dir",
    "resume": "--resume",
    "resume_if_begun": "--resume-if-begun",
    "engine": "--engine",
    "hosts": "--hosts",
}


@script.command("slurm")
def slurm(
    words: Annotated[
        list[str] | None,
        typer.Argument(help="Behind --: what follows paceline run."),
    ] = None,
    *,
    nodes: Annotated[int, typer.Option(help="Machines.", min=1, show_default="1")] = 1,
    time: Annotated[
        str | None,
        typer.Option(help="Of a turn; the job goes on in the next: 4:00:00."),
    ] = None,
    partition: Annotated[str | None, typer.Option(help="Where it is queued.")] = None,
    array: Annotated[
        str | None, typer.Option(help="So many of them, as sbatch numbers them: 0-7.")
    ] = None,
    sbatch: Annotated[
        list[str] | None,
        typer.Option(help="Any other option of sbatch: --sbatch=--gpus-per-node=4."),
    ] = None,
    join: Annotated[
        str | None,
        typer.Option(
            help="Bring machines to the job in this folder: behind -- options of paceline "
            "host."
        ),
    ] = None,
) -> None:
    """Write a batch script for SLURM: paceline script slurm --nodes 3 -- train.py > x.

    Submitted with sbatch, it runs the job, and goes on with it after a requeue.
    """
    said = {"--time": time, "--partition": partition, "--array": array}
    lines = [f"{option}={text}" for option, text in said.items() if text is not None]
    lines += sbatch or []
    for line in lines:
        if not line.startswith("-") or "\n" in line:
            raise UsageError(f"--sbatch: expected an option of sbatch, got {line!r}")
    programs = str(Path(sys.executable).parent)
    if join is not None:
        batch = BatchJob("paceline-host", nodes, tuple(lines), programs)
        if nodes > 1:
            raise UsageError(
                "--join: each machine that joins is a job of its own: say --array=0-7 for "
                f"eight of them, not --nodes {nodes}"
            )
        text = host_script(batch, _place(join), words or [])
    else:
        asked = _asked(words or [])
        named = file_of(UserScript(asked["script"], (), asked["is_module"]))
        batch = BatchJob(Path(named).stem, nodes, tuple(lines), programs)
        has_checkpoints = asked["checkpoints"] is not None
        text = run_script(batch, words or [], has_checkpoints=has_checkpoints)
    sys.stdout.write(text)


def _place(join: str) -> str:
    """A folder as every machine finds it."""
    return str(Path(join).absolute()) if Path(join).is_dir() else join


def _asked(words: list[str]) -> dict[str, Any]:
    """What ``paceline run`` makes of its words: what is wrong with them is told now.

    Raises:
        UsageError: they say what the script says.
    """
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(context_settings={"allow_interspersed_args": False})(run)
    context = typer.main.get_command(app).make_context("paceline run", list(words))
    for field, option in _GIVEN.items():
        if context.params[field]:
            raise UsageError(f"{option}: the script says that itself: leave it out")
    return context.params
