"""Every block of the pages for users is run, read by its program, or held by another test.

::

    python      runs: tests/system/test_pages_run.py, with what `completing.py` adds
    diff        both sides run there
    commands    parsed by the programs themselves, here; those of one machine that take
                seconds run in tests/system/test_pages_typed.py
    printed     src says what stands there
    yaml ...    parsed

What none of these can hold is in `HELD`, by a test that names the page, or in `SHOWN`, with
the reason.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.architecture.test_told_pages import all_said, is_said, runs_of_words
from tests.docs.blocks import (
    ROOT,
    Block,
    all_blocks,
    blocks_of,
    name_of,
    pages,
    printed,
    text_of,
    typed,
    unfenced,
)
from tests.docs.completing import RUN
from tests.docs.parsing import refusals

FIRST_CHANGE = "tests/docs/test_first_change.py"
HELD = {  # {a block, or a page with all of its blocks of a kind: the test that holds it}
    ("docs/first-change.md", "diff"): FIRST_CHANGE,
    ("docs/first-change.md", "python"): FIRST_CHANGE,
    ("docs/first-change.md", "commands"): FIRST_CHANGE,
    ("docs/states.md", "mermaid"): "tests/architecture/test_developer_pages.py",
    ("docs/coming-from-ddp.md", "python"): "tests/system/test_coming_from_ddp.py",
    ("docs/examples.md", "python"): "tests/docs/test_examples_page.py",
    ("docs/quickstart.md", "python"): "tests/system/test_quickstart.py",
    ("docs/paces.md: import paceline", "python"): "tests/cluster/test_strategy.py",
}
SHOWN = {  # {a block that no program runs or prints: why it stands there}
    "README.md: data 1 where examples come from: sources, ta": (
        "a drawing; tests/architecture/test_documents.py holds its order"
    ),
    "docs/architecture.md: 7 paceline itself: the public names, loaded": (
        "a drawing of the floors that pyproject.toml has"
    ),
    "CONTRIBUTING.md: coordinator: Expire leases by token, not by": (
        "how a change is told"
    ),
}
DATA: dict[str, Callable[[str], Any]] = {"json": json.loads, "yaml": yaml.safe_load}
# Commands within a sentence, but for those of an earlier commit, which it names.
INLINE = re.compile(
    r"`((?:\.venv/bin/)?(?:python3? -m|python examples/|pytest) [^`]+)`"
    r"(?!,?\s+(?:at|a program of)\s+`[0-9a-f]{7,}`)"
)
# What a page makes up may stand where a message has a value: a role, a machine, a kind.
A_VALUE = re.compile(
    r"\b(?:launcher|coordinator|from a|to one|machines(?= as it is))\b|\(\w+\)|[━╸⠀-⣿…]+"
)


def key_of(block: Block, known: Any) -> Any:
    """By which of the keys a block is known, if any."""
    keys = ((block.page, block.kind), (block.name, block.kind), block.name)
    return next((key for key in keys if key in known), None)


def unheld(blocks: list[Block]) -> list[str]:
    """Python and differences that nobody runs, and languages that nobody reads."""
    return [
        f"{block.page}:{block.line} ({block.kind})"
        for block in blocks
        if block.kind not in {"commands", "printed", *DATA}
        and block.name not in RUN
        and key_of(block, HELD) is None
        and key_of(block, SHOWN) is None
    ]


def test_every_block_has_somebody_who_runs_it() -> None:
    found = unheld(all_blocks())
    assert not found, (
        "say in tests/docs/completing.py how these run, or in this file which test holds "
        "them:\n" + "\n".join(found)
    )


def test_a_block_that_nobody_runs_is_caught() -> None:
    page = "# Things\n\n```python\nprint(new)\n```\n\n    ```\n    ls\n    ```\n"
    new, shell = blocks_of("docs/new.md", page)
    assert unheld([new, shell]) == ["docs/new.md:3 (python)"]
    assert (shell.kind, shell.text, shell.section) == ("printed", "ls\n", "Things")


def test_no_block_is_registered_that_is_gone() -> None:
    blocks = all_blocks()
    names = {b.name for b in blocks}
    held = {key_of(block, HELD) for block in blocks}
    assert set(HELD) <= held, "HELD"
    assert set(SHOWN) <= names, "SHOWN"
    assert set(RUN) <= {b.name for b in blocks if b.kind in {"python", "diff"}}, "RUN"


@pytest.mark.parametrize("key", HELD)
def test_the_test_that_holds_a_block_reads_its_page(key: tuple[str, str]) -> None:
    page = key[0].partition(":")[0].rpartition("/")[2]
    assert page in (ROOT / HELD[key]).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [name_of(page) for page in pages()])
def test_commands_are_taken_by_the_programs_that_they_name(page: str) -> None:
    lines = [
        line
        for block in blocks_of(page, text_of(page))
        if key_of(block, HELD) is None
        for line in typed(block)
    ]
    inline = INLINE.findall(unfenced(text_of(page)))
    refused = [
        f"{line}\n    {why}"
        for line in [*lines, *(" ".join(line.split()) for line in inline)]
        for why in refusals(line)
    ]
    assert not refused, f"{page}:\n" + "\n".join(refused)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("paceline run --warp 3 train.py", "No such option"),
        ("paceline run --pace sink train.py", "sink"),
        ("paceline run --trainers some train.py", "some"),
        ("paceline status a b", "unexpected extra argument"),
        ("srun --overlap paceline stop", "no command 'stop'"),
        ("paceline script slurm -- --warp 3 train.py", "No such option"),
        ("paceline run examples/clusters/kmeans.py --warp 3", "--warp"),
        ("python -m benchmarks ctr --warp 3", "--warp"),
        ("python -m benchmarks warp", "warp"),
        ("python -m tools.warp", "no module"),
        ("pytest tests/warp.py", "no tests/warp.py"),
        ("pip install 'paceline[warp]'", "no extra 'warp'"),
    ],
)
def test_a_command_that_is_refused_is_caught(line: str, why: str) -> None:
    [said] = refusals(line)
    assert why in said


@pytest.fixture(scope="module")
def said() -> str:
    """All that the program may say."""
    return all_said()


def unsaid(block: Block, said: str) -> list[str]:
    """Lines of a block that no program of ours prints."""
    return [
        line
        for line in printed(block)
        for cell in re.split(r"\s{2,}", A_VALUE.sub("0", line))
        if not all(is_said(words, said) for words in runs_of_words(cell))
    ]


def test_what_a_page_says_was_printed_is_said_in_src(said: str) -> None:
    wrong = [
        f"{block.page}:{block.line}: {line}"
        for block in all_blocks()
        if key_of(block, SHOWN) is None
        for line in unsaid(block, said)
    ]
    assert not wrong, "nothing in src says:\n" + "\n".join(wrong)


def test_a_line_that_is_not_printed_any_more_is_caught(said: str) -> None:
    page = (
        "```\ntrainer-0 goes on after 42 s: it has waited for trainer-1 (round)\n{}\n```\n"
    )
    [true] = blocks_of("x.md", page.format("restarts    coordinator 0"))
    [false] = blocks_of("x.md", page.format("trainer-0 has gone to sleep for a while"))
    assert not unsaid(true, said)
    assert len(unsaid(false, said)) == 1


@pytest.mark.parametrize("block", [b for b in all_blocks() if b.kind in DATA], ids=str)
def test_data_is_whole(block: Block) -> None:
    assert DATA[block.kind](block.text)
