"""What the pages for users tell to type on one machine does what they say.

The commands of a page run in its order, in the folder of somebody who has saved the script
of the quickstart, with a tenth of its data. What the page shows as printed is compared line
by line without its numbers.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.docs.blocks import Block, all_blocks, printed, typed
from tests.docs.completing import script_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.around,
    pytest.mark.timeout(0),
]

WAIT_S = 300.0
QUICKSTART = "docs/quickstart.md"
PAGES = [
    "docs/checkpoints.md",
    "docs/dashboard.md",
    "docs/debugging.md",
    "docs/simulate.md",
]
LEFT_OUT = {  # {how a command begins: why it is not run here}
    "python3 -m venv": "tests/system/test_wheel.py installs",
    "source .venv": "the same",
    "pip install": "the same",
    "kill -9": "tests/system/test_kills.py kills",
    "paceline run --checkpoint-every": "tests/cli/test_cli.py reads the values of options",
    "paceline run --keep": "the same",
    "paceline run --checkpoints s3:": "tests/system/test_kept.py has a bucket",
    "paceline dashboard": "it does not end: tests/dashboard",
}
SENTENCES = {  # {what is shown behind a sentence: what the sentence tells to type}
    "docs/debugging.md: trace.json: 292 events; open it at https://u": [
        "paceline trace JOB -o trace.json"
    ],
}
OF_SCRIPTS = {  # {what a script's own call says: the test that holds it}
    "docs/debugging.md: a profile of 5 steps is in JOB/traces/traine": (
        "tests/trainer/test_profiling.py"
    ),
}
NAME = re.compile(r"(?<![\w./-])(?:D|JOB|runs/mine|12)(?![\w.])")  # that pages make up
NUMBER = re.compile(r"\d[\d.,]*")
# Whether these are said depends on how long things take.
BY_CHANCE = re.compile(r"^(?:launcher (?:waits|goes on)|\d+ s  |\.\.\.$)")


def left_out(line: str) -> bool:
    return any(line.startswith(beginning) for beginning in LEFT_OUT)


def own_name(name: str, folder: Path) -> str:
    """What is called so on a page, here: the job, or its last checkpoint."""
    if not name.isdecimal():
        return "runs/first"
    cut = max((folder / "runs" / "first" / "checkpoints").glob("cut-*"))
    return str(int(cut.name.split("-")[1]))


def shape(line: str) -> str:
    """A line without its numbers; of a row of a table, what it is about."""
    cells = re.split(r"\s{2,}", line.strip())
    return NUMBER.sub("0", " ".join(cells if len(cells) < 3 else cells[:1]))


def type_in(line: str, folder: Path) -> str:
    """Run a command as a shell would; what it has printed."""
    program = f"{sys.executable} -m paceline.cli.main"
    line = re.sub(r"^paceline\b", program, re.sub(r"^python\b", sys.executable, line))
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stderr + done.stdout


def follow(page: str, folder: Path) -> None:
    """Type what a page tells to type, and look for what it shows behind that."""
    said = ""
    for block in (block for block in all_blocks() if block.page == page):
        lines = SENTENCES.get(block.name, typed(block))
        if lines:
            said = ""
        for line in filter(lambda line: not left_out(line), lines):
            said += type_in(NAME.sub(lambda name: own_name(name[0], folder), line), folder)
        is_compared = bool(said) and block.name not in OF_SCRIPTS
        missing = unprinted(block, said.splitlines()) if is_compared else []
        assert not missing, (
            f"{page}:{block.line} shows\n" + "\n".join(missing) + f"\n{said}"
        )


def unprinted(block: Block, said: Iterable[str]) -> list[str]:
    """Lines that a page shows and nobody has printed, but for their numbers."""
    shapes = {shape(line) for line in said}
    return [
        line
        for line in printed(block)
        if not BY_CHANCE.match(line) and shape(line) not in shapes
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where somebody has followed the quickstart."""
    [script] = [b.text for b in all_blocks() if b.page == QUICKSTART and b.kind == "python"]
    folder = tmp_path_factory.mktemp("typed")
    (folder / "train.py").write_text(script.replace("200_000", "20_000"))
    follow(QUICKSTART, folder)
    assert len(list((folder / "runs").iterdir())) == 3
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_tells_to_type_does_what_it_says(page: str, folder: Path) -> None:
    follow(page, folder)


def test_python_of_the_page_of_commands_runs_jobs(tmp_path: Path) -> None:
    page = script_of("docs/command-line.md")
    (tmp_path / "own.py").write_text(page)
    type_in("python own.py", tmp_path)


def test_what_is_left_out_is_on_a_page() -> None:
    lines = [
        line for b in all_blocks() if b.page in {QUICKSTART, *PAGES} for line in typed(b)
    ]
    assert not [b for b in LEFT_OUT if not any(line.startswith(b) for line in lines)]
    assert {*SENTENCES, *OF_SCRIPTS} <= {block.name for block in all_blocks()}
