"""The summary for people."""

import io

from rich.console import Console

from paceline.watch.summary import Ending, Restarts, RunTime, Verdict, summarize
from paceline.watch.table import summary_table


def test_the_job_folder_is_whole_on_a_narrow_terminal() -> None:
    folder = "/somewhere/far/away/" + "deep/" * 20 + "runs/mine"
    output = io.StringIO()
    summary = summarize(
        None, Verdict(Ending.INTERRUPTED, "x"), Restarts(), 1.0, folder, RunTime(0.0)
    )
    Console(file=output, width=60).print(summary_table(summary))
    lines = [line.split("  ", 1)[-1].strip() for line in output.getvalue().splitlines()]
    assert folder in "".join(lines)
