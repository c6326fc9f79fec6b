"""The kinds of waits are those that the pages list."""

import re
from pathlib import Path
from typing import get_args

from paceline.messages.waits import WaitKind

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_about_waits_lists_all_kinds() -> None:
    page = (DOCS / "errors.md").read_text()
    table = page.split("## Waits")[1].split("## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(get_args(WaitKind))
