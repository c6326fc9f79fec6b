"""``paceline``: the commands behind one name.

Exit codes: 0 as promised; 1 failed; 2 wrong usage; 3 finished with failed tasks; 75
interrupted. Errors that the house raises on purpose are said on standard error, without a
traceback.
"""

import sys

import typer

from paceline.cli.checkpoint import checkpoint
from paceline.cli.draw import draw
from paceline.cli.pace import pace
from paceline.cli.run import run
from paceline.cli.scale import scale
from paceline.cli.simulate import simulate
from paceline.cli.status import status
from paceline.cli.streams import sturdy_streams
from paceline.errors import USAGE_EXIT_CODE, PacelineError, UsageError
from paceline.watch.summary import EXIT_CODES, Ending

app = typer.Typer(
    name="paceline",
    help="Elastic training for PyTorch: many trainers, one model, one pace.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
# Options behind the script belong to the script.
app.command(context_settings={"allow_interspersed_args": False})(run)
app.command()(status)
app.command()(scale)
app.command()(pace)
app.command()(draw)
app.command()(simulate)
app.add_typer(checkpoint)


def main() -> None:
    """Run the command that the arguments name."""
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
