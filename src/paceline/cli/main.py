"""``paceline``: the commands behind one name.

Only the command that is named is imported: `paceline status` needs no numpy.

Exit codes: 0 as promised; 1 failed; 2 wrong usage; 3 finished with failed tasks; 75
interrupted. Errors that the house raises on purpose are said on standard error, without a
traceback.
"""

import importlib
import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from paceline.cli.streams import sturdy_streams
from paceline.errors import USAGE_EXIT_CODE, PacelineError, UsageError
from paceline.watch.summary import EXIT_CODES, Ending

# Each is the name of what its module has for it, and of the module, but for these.
COMMANDS = (
    *("run", "host", "role", "status", "logs", "scale", "pace", "interrupt"),
    *("draw", "dashboard", "report", "simulate", "checkpoint", "doctor", "script"),
    *("manifests", "track", "trace", "stacks", "warm"),
)
_MODULES = {
    **{name: f"elsewhere.{name}" for name in ("host", "doctor", "manifests", "script")},
    "role": "elsewhere.host",
    "warm": "elsewhere.warm",
    "pace": "scale",
    "interrupt": "scale",
    "report": "dashboard",
    "trace": "draw",
}
_HELP = "Elastic training for PyTorch: many trainers, one model, one pace."


def app_of(names: Iterable[str]) -> typer.Typer:
    """The program with these commands, whose modules alone are imported."""
    app = typer.Typer(
        name="paceline",
        help=_HELP,
        callback=_group,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for name in names:
        module = importlib.import_module(f"paceline.cli.{_MODULES.get(name, name)}")
        command = getattr(module, name)
        if isinstance(command, typer.Typer):
            app.add_typer(command)
        else:
            # Options behind the script belong to the script.
            is_script = name == "run"
            settings = {"allow_interspersed_args": False} if is_script else None
            app.command(name, context_settings=settings)(command)
    return app


def _say_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version  # noqa: PLC0415  (few ask)

        print(f"paceline {version('paceline')}")
        raise typer.Exit


def _group(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Say which version this is, and leave.",
            is_eager=True,
            callback=_say_version,
        ),
    ] = False,
) -> None:
    """A group, also of one command."""


def main() -> None:
    """Run the command that the arguments name."""
    named = sys.argv[1:2]
    app = app_of(named if named and named[0] in COMMANDS else COMMANDS)
    with sturdy_streams() as output:
        try:
            app()
        except UsageError as error:
            print(f"paceline: {error}", file=sys.stderr)
            sys.exit(USAGE_EXIT_CODE)
        except PacelineError as error:
            print(f"paceline: {type(error).__name__}: {error}", file=sys.stderr)
            sys.exit(EXIT_CODES[Ending.FAILED])
        except SystemExit as ended:
            output.flush()
            if output.lost is None:
                raise
            text = f"paceline: standard output cannot be written: {output.lost.strerror}"
            print(text, file=sys.stderr)
            sys.exit(ended.code or EXIT_CODES[Ending.FAILED])


if __name__ == "__main__":
    main()
