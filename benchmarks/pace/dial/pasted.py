"""Puts tables into a page, between two marks: no number of theirs is typed by hand.

::

    <!-- dial: bound -->
    ... whatever was found last ...
    <!-- dial: end -->

Pure.
"""

from benchmarks.harness.page import markdown_table
from benchmarks.pace.dial.table import Table

END = "<!-- dial: end -->"


def pasted(page: str, found: Table, seeds: int) -> str:
    """The page with a table in its place.

    Args:
        page: has the table's marks.
        found: the table.
        seeds: that it was made with.

    Raises:
        ValueError: the page has no such marks.
    """
    mark = f"<!-- dial: {found.name} -->"
    before, is_there, rest = page.partition(mark)
    _, is_closed, after = rest.partition(END)
    if not (is_there and is_closed):
        raise ValueError(
            f"expected {mark} and {END} in the page, to put {found.name} there"
        )
    return f"{before}{mark}\n{shown(found, seeds)}\n{END}{after}"


def shown(found: Table, seeds: int) -> str:
    """A table as a page has it: what was the same, the picture, the rows, the doubts."""
    picture = f"![{found.title}](images/dial-{found.name}.svg)"
    medians = "one seed" if seeds == 1 else f"medians of {seeds} seeds"
    command = f"`python -m benchmarks dial --only {found.name} --seeds {seeds}`"
    lines = [f"{found.setting}; {medians}. {command}", "", picture, ""]
    lines.append(markdown_table(found.rows))
    if found.doubts:
        lines += ["", f"To be doubted: {'; '.join(found.doubts)}."]
    return "\n".join(lines)
