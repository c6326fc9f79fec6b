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
    for name, value in summary.rows().items():
        table.add_row(name, value)
    return table
