"""Tables of numbers say, in their own section, which command makes them again."""

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.docs.blocks import HEADING, all_blocks, name_of, pages, text_of, typed, unfenced

TABLE = re.compile(r"(?:^\|.*\|$\n?)+", re.MULTILINE)
FIGURE = re.compile(r"^[-+<>~]?\d[\d.,]*(?:$|[ %(x;/,])|^(?:within|at (?:most|least)) \d")
COMMAND = re.compile(
    r"`(?:(?:\.venv/bin/)?python3? -m (?:benchmarks|tools|tests|pytest)\b|make \w|"
    r"pytest tests/|paceline \w)[^`]*`"
)
MOSTLY = 0.5
NOT_MEASURED = {  # {(page, section): why no command makes its numbers}
    ("docs/command-line.md", "Ctrl-C"): "limits; tests/cli/test_command_line_page.py",
    ("docs/simulate.md", "Models"): "what options say",
}


class Figures(NamedTuple):
    """A table whose cells are numbers for the most part."""

    page: str
    section: str
    line: int
    has_command: bool


def cells(table: str) -> list[str]:
    """What stands in a table behind the first column, below its head."""
    rows = [line.strip("|").split("|") for line in table.splitlines()[2:]]
    return [cell.strip(" `*") for row in rows for cell in row[1:] if cell.strip()]


def is_of_figures(table: str) -> bool:
    """Whether most of a table is numbers."""
    told = cells(table)
    return bool(told) and sum(map(bool, map(FIGURE.match, told))) > MOSTLY * len(told)


def tables(page: str, text: str) -> Iterator[Figures]:
    """The tables of numbers of a page, each with what its section says about commands."""
    plain = unfenced(text)
    begins = [0, *(found.start() for found in HEADING.finditer(plain)), len(plain)]
    commands = [b for b in all_blocks() if b.page == page and typed(b)]
    for start, end in itertools.pairwise(begins):
        first, last = (text.count("\n", 0, at) + 1 for at in (start, end))
        section = text[start:end].partition("\n")[0].strip("# ")
        has_command = bool(COMMAND.search(plain[start:end])) or any(
            first <= block.line < last for block in commands
        )
        for found in TABLE.finditer(plain, start, end):
            if is_of_figures(found[0]):
                line = text.count("\n", 0, found.start()) + 1
                yield Figures(page, section, line, has_command)


def test_every_table_of_numbers_names_its_command() -> None:
    found = [t for page in pages() for t in tables(name_of(page), text_of(name_of(page)))]
    assert len(found) > 10
    bare = {(t.page, t.section): t for t in found if not t.has_command}
    missing = [
        f"{t.page}:{t.line}: {t.section}" for k, t in bare.items() if k not in NOT_MEASURED
    ]
    assert not missing, "no command in the section of these tables:\n" + "\n".join(missing)
    assert set(NOT_MEASURED) <= set(bare), "these name a command, or are gone"


def test_a_table_without_a_command_is_caught() -> None:
    table = "| pace | seconds |\n|---|---|\n| sync | 12.5 s (1.00) |\n| async | 3 |\n"
    [bare] = tables("x.md", f"# Speed\n\n{table}\n# Other\n\n`make bench`\n")
    assert (bare.section, bare.line, bare.has_command) == ("Speed", 3, False)
    [told] = tables("x.md", f"# Speed\n\nBy `python -m benchmarks ctr`:\n\n{table}")
    assert told.has_command
    words = "| option | default |\n|---|---|\n| `--keep` | how many |\n| `--seed` | 0 |\n"
    assert not list(tables("x.md", f"# Options\n\n{words}"))
