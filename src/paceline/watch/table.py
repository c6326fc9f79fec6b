"""The summary of a run, for people.

Pure.
"""

from rich.table import Table

from paceline.watch.summary import Summary


def summary_table(summary: Summary) -> Table:
    """The summary for people."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")  # a folder that is cut off is of no use
    tasks = f"{summary.tasks.done:,} done"
    if summary.tasks.failed:
        tasks += f", {summary.tasks.failed:,} failed"
    restarts = summary.restarts
    rows = {
        "status": summary.status,
        "epochs": f"{summary.epochs:,}",
        "records": f"{summary.records:,}",
        "tasks": tasks,
        "steps": f"{summary.steps:,}",
        "seconds": _seconds_told(summary),
        "records/s": f"{summary.records_per_second:,.0f} in loops over batches",
        **{name: _number(value) for name, value in summary.metrics.items()},
        "restarts": f"coordinator {restarts.coordinator}, server {restarts.server}, "
        f"trainer {restarts.trainer}",
        "job folder": summary.job_dir,
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _seconds_told(summary: Summary) -> str:
    start_s = summary.start_seconds
    began = "" if start_s is None else f", the first batch after {start_s:,.1f}"
    return f"{summary.seconds:,.1f}{began}"


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.6g}"
