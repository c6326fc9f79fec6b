"""Lines of a script that docs/examples.md shows stand in the script linked above them."""

import re

from tests.docs.blocks import FENCED, text_of

PAGE = "docs/examples.md"
SCRIPT = re.compile(r"\((\.\./examples/[^)]+\.py)\)")


def absent(page: str) -> list[str]:
    """Lines of blocks in Python that are not in the last script named before them."""
    found = []
    for block in FENCED.finditer(page):
        if block[2] == "python":
            script = SCRIPT.findall(page, 0, block.start())[-1]
            there = {line.strip() for line in text_of(script[3:]).splitlines()}
            told = (line.strip() for line in block[3].splitlines())
            found += [f"{script}: {line}" for line in told if line not in there]
    return found


def test_lines_of_scripts_are_in_them() -> None:
    page = text_of(PAGE)
    assert page.count("```python") == 5
    assert not absent(page)


def test_a_line_that_is_not_in_its_script_is_caught() -> None:
    page = "[x](../examples/topics/lda.py)\n\n```python\nimport paceline\nno line\n```\n"
    assert absent(page) == ["../examples/topics/lda.py: no line"]
