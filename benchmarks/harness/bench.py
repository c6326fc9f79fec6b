"""How a benchmark is declared, and all that is done around what it measures.

::

    @bench("codecs", opt("times", 5, "seeds"), opt("codecs", CODECS))
    def main(run: Run) -> Found:
        runs = run.interleaved(run.flags.codecs, once, told)
        return Found(figures_of(runs), ratios_of(runs), "the same records", is_equal=True)

Options are parsed by the type of what they are without being given; circumstances are
looked at before the load is our own. What is found is printed, kept in a record of the same
name, and judged by the table of goals: a goal that is missed is told, and is no failure,
unless the benchmark must reach it.

Exit status: 0; 1 if the sides were not equal, or if a goal was missed that must be reached.

Waits: for what a benchmark waits for.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, final

from benchmarks.harness.apart import APART
from benchmarks.harness.environments import one_thread
from benchmarks.harness.figures import Found, figure_rows, kept, ratio_rows
from benchmarks.harness.goals import TABLE
from benchmarks.harness.processes import fork_server, wait_job, wait_scripts
from benchmarks.harness.record import circumstances, say, table, write
from paceline.config import JobConfig
from paceline.launch.job.commands import UserScript
from paceline.launch.processes.forkserver import ForkServer
from paceline.watch.summary import Summary

LIMIT_S = 900.0  # of a script
STATUS = (
    "Exit status: 1 if the sides are not equal, or a goal is missed that must be reached."
)

Candidate = TypeVar("Candidate")
Measured = TypeVar("Measured")


class Option(NamedTuple):
    """One option; see `opt`."""

    name: str
    default: Any
    help: str | None
    choices: Sequence[str] | None
    kind: Callable[[str], Any]


def opt(
    name: str,
    default: Any,  # noqa: ANN401  (whatever an option can be)
    help: str | None = None,  # noqa: A002  (as argparse has it)
    choices: Sequence[str] | None = None,
    kind: Callable[[str], Any] | None = None,
) -> Option:
    """An option of a benchmark.

    Args:
        name: without dashes.
        default: a bool is a switch, and a tuple a list with commas.
        help: for people.
        choices: what it, or each of a list, may be.
        kind: its type, where the default does not say it.
    """
    if not isinstance(default, tuple):
        return Option(name, default, help, choices, kind or type(default))
    one = kind or type(default[0])

    def split(text: str) -> tuple[Any, ...]:
        words = [word for word in text.split(",") if word]
        if unknown := [word for word in words if choices and word not in choices]:
            known = ", ".join(choices or ())
            raise argparse.ArgumentTypeError(f"{unknown[0]!r}: expected one of {known}")
        return tuple(map(one, words))

    return Option(name, default, help, None, split)


TIMES = opt("times", 5, "runs of each candidate")


@final
class Run:
    """One run of a benchmark: its options, folders, and processes to fork from."""

    def __init__(
        self,
        flags: argparse.Namespace,
        where: Mapping[str, object],
        folder: Path,
        stack: ExitStack,
    ) -> None:
        """Nothing is started yet.

        Args:
            flags: the options.
            where: the circumstances, of which a record tells.
            folder: a fresh one, which goes when the run is over.
            stack: ends what was started.
        """
        self.flags, self.where, self.folder = flags, where, folder
        self._stack = stack
        self._forks: dict[tuple[str, ...], ForkServer] = {}
        self._places = 0
        self.turn = 0  # of `interleaved`: a seed for what is drawn in it

    def place(self) -> Path:
        """A fresh folder, for one run of one candidate; nobody else may look into it."""
        self._places += 1
        made = self.folder / str(self._places)
        made.mkdir(0o700)
        return made

    def forks(self, *preloaded: str) -> ForkServer:
        """What processes of one thread are forked from, with these modules imported."""
        if preloaded not in self._forks:
            log = self.folder / f"forks-{len(self._forks)}"
            server = fork_server(log, 1, preloaded)
            self._forks[preloaded] = self._stack.enter_context(server)
        return self._forks[preloaded]

    def job(
        self,
        script: Path,
        words: Iterable[object],
        place: Path,
        config: JobConfig,
        changes: Mapping[str, str] | None = None,
        preloaded: Sequence[str] = (),
    ) -> Summary:
        """Run a script as a job of this machine to its end.

        Args:
            script: of a trainer.
            words: its command line.
            place: a fresh folder.
            config: of the job, see `job_config`.
            changes: of the environment; without any, all compute with one thread.
            preloaded: modules that its processes have imported; with `APART` they talk over
                TCP, as between hosts.
        """
        return wait_job(
            self.forks(*preloaded),
            config,
            UserScript(str(script), tuple(map(str, words))),
            one_thread() if changes is None else changes,
            place,
            "tcp" if APART in preloaded else "unix",
        )

    def script(
        self,
        script: Path,
        place: Path,
        *sides: Iterable[object],
        changes: Mapping[str, str] | None = None,
        limit_s: float = LIMIT_S,
    ) -> None:
        """Run a script to its end, all sides at once in processes of their own.

        Args:
            script: of all.
            place: a fresh folder.
            sides: the command line of each.
            changes: of the environment; without any, all compute with one thread.
            limit_s: how long all may take.
        """
        environment = one_thread() if changes is None else changes
        told = [tuple(map(str, words)) for words in sides]
        wait_scripts(self.forks(), script, told, environment, place / "log", limit_s)

    def interleaved(
        self,
        candidates: Iterable[Candidate],
        once: Callable[[Candidate, Path], Measured],
        told: Callable[[Candidate, Measured], str],
        *,
        is_turned: bool = False,
        gives_up: Callable[[dict[Candidate, list[Measured]], Candidate], bool]
        | None = None,
    ) -> dict[Candidate, list[Measured]]:
        """Runs of all candidates in turns, `times` of each.

        Args:
            candidates: all.
            once: runs one in a fresh folder.
            told: what is said of a run.
            is_turned: every other time the last one is first: who is first finds the
                machine as another left it.
            gives_up: whether one runs once only, asked when all have.
        """
        times, runs = self.flags.times, {one: list[Measured]() for one in candidates}
        turn = list(runs)
        for again in range(times):
            self.turn = again
            for one in turn[::-1] if is_turned and again % 2 else turn:
                runs[one].append(once(one, self.place()))
                say(f"{again + 1}/{times}  {told(one, runs[one][-1])}")
            if gives_up is not None and not again:
                turn = [one for one in turn if not gives_up(runs, one)]
        return runs


Main = Callable[[Sequence[str]], int]


def bench(
    name: str, *options: Option, must: Sequence[str] = ()
) -> Callable[[Callable[[Run], Found | int]], Main]:
    """Make a benchmark's command of what it measures.

    Args:
        name: of the benchmark, of its records, and of it in the table of goals.
        options: that it takes.
        must: goals that fail the command where they are missed.

    Returns:
        A decorator. What it decorates returns what was found; or an exit status, and has
        told and kept the rest itself.
    """

    def declared(measure: Callable[[Run], Found | int]) -> Main:
        @wraps(measure)
        def main(arguments: Sequence[str]) -> int:
            doc = sys.modules[measure.__module__].__doc__
            flags = parsed(name, doc, options, arguments[1:])
            where = circumstances(arguments)  # before the load is our own
            # The kernel's paths of sockets are short.
            with tempfile.TemporaryDirectory(prefix="pb-") as folder, ExitStack() as stack:
                found = measure(Run(flags, where, Path(folder), stack))
            return found if isinstance(found, int) else concluded(name, where, found, must)

        return main

    return declared


def parsed(
    name: str, doc: str | None, options: Sequence[Option], words: Sequence[str]
) -> argparse.Namespace:
    """The options of a command line."""
    parser = argparse.ArgumentParser(
        prog=f"benchmarks {name}",
        description=doc,
        epilog=STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for one in options:
        if isinstance(one.default, bool):
            parser.add_argument(f"--{one.name}", action="store_true", help=one.help)
        else:
            parser.add_argument(
                f"--{one.name}",
                default=one.default,
                type=one.kind,
                choices=one.choices,
                help=one.help,
            )
    return parser.parse_args(words)


def concluded(
    name: str, where: Mapping[str, object], found: Found, must: Sequence[str] = ()
) -> int:
    """Print what was found, keep it and judge it; the exit status."""
    strange = {r.goal_name for r in found.ratios if r.goal_name} - goals_of(name)
    assert not strange, f"{name}: goals of another benchmark: {strange}"
    told = [found.told if found.is_equal else f"{found.told}\nNOT EQUAL: no ratio counts"]
    rows = [figure_rows(found.figures)]
    rows += [ratio_rows(found.ratios, found.figures)] if found.ratios else []
    print("\n\n".join([*told, *found.tables, *map(table, rows)]))
    print(f"\n{write(name, {**where, **kept(found)})}")
    is_missed = any(r.goal_name in must and r.verdict == "missed" for r in found.ratios)
    return int(is_missed or not found.is_equal)


def goals_of(name: str) -> set[str]:
    """The goals of a benchmark."""
    return {goal.name for goal in TABLE if goal.benchmark == name}


def result(place: Path, side: int | None = None) -> Any:  # noqa: ANN401  (any)
    """What a candidate left in its folder, or one side of it did."""
    name = "result.json" if side is None else f"result-{side}.json"
    return json.loads((place / name).read_text(encoding="utf-8"))


def flags_of(**values: object) -> list[str]:
    """A command line: ``--out x --trips 5``."""
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]
