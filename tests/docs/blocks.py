"""The fenced blocks of the pages for users, and what each of them is.

A block says its language, or is bare; a bare one is commands where every line of it is one,
and what a program printed where none is.
"""

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SETS_VARIABLES = re.compile(r"^(?:[A-Z][A-Z0-9_]*=\S+ +)+")
ASIDE = re.compile(r"(?:^|\s)#.*$")  # a remark behind a command
PROMPT = "$ "
NAME_CHARACTERS = 44

# Programs that are not ours: what follows may hold a command of ours all the same.
FOREIGN = frozenset(
    [
        "docker",
        "export",
        "git",
        "grep",
        "kill",
        "kubectl",
        "ray",
        "salloc",
        "sbatch",
        "source",
        "srun",
        "tensorboard",
        "torchrun",
        "umask",
    ]
)
OURS = frozenset(("make", "paceline", "pip", "python", "python3", ".venv/bin/python"))
NOT_FOR_USERS = {"LOG.md"}  # experiments, as they were done


class Block(NamedTuple):
    """A fenced block: ``line`` is that of its fence, ``text`` without its indent."""

    page: str
    line: int
    language: str
    text: str
    section: str

    @property
    def name(self) -> str:
        """The page, and how the block begins: it stays where others come or go."""
        first = " ".join(self.text.partition("\n")[0].split())
        return f"{self.page}: {first[:NAME_CHARACTERS].strip()}"

    @property
    def kind(self) -> str:
        """``python``, ``diff`` ..., as it says itself; else ``commands`` or ``printed``."""
        if self.language:
            return "commands" if self.language == "sh" else self.language
        return "commands" if all(map(is_command, command_lines(self.text))) else "printed"


def pages() -> list[Path]:
    """What users read, and who begins to work on paceline."""
    docs = [p for p in (ROOT / "docs").glob("*.md") if p.name not in NOT_FOR_USERS]
    return sorted([*docs, *ROOT.glob("*.md")])


def name_of(page: Path) -> str:
    """A page as the tests call it."""
    return page.relative_to(ROOT).as_posix()


def text_of(page: str) -> str:
    """All of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """The blocks of a page, in order."""
    headings = [(found.start(), found[1]) for found in HEADING.finditer(unfenced(text))]
    for found in FENCED.finditer(text):
        indent, language, inside = found.groups()
        lines = [line.removeprefix(indent) for line in inside.splitlines()]
        above = [title for at, title in headings if at < found.start()]
        section = above[-1] if above else ""
        line = text.count("\n", 0, found.start()) + 1
        yield Block(page, line, language, "\n".join(lines) + "\n", section)


def unfenced(text: str) -> str:
    """A page whose blocks are blank; every other character is where it was."""
    return FENCED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


@functools.cache
def all_blocks() -> list[Block]:
    """The blocks of all pages."""
    return [b for page in pages() for b in blocks_of(name_of(page), text_of(name_of(page)))]


def command_lines(text: str) -> list[str]:
    """The lines of commands as a shell has them: whole, without remarks."""
    whole = text.replace("\\\n", " ")
    lines = (" ".join(ASIDE.sub("", line).split()) for line in whole.splitlines())
    return [SETS_VARIABLES.sub("", line) for line in lines if line]


def is_command(line: str) -> bool:
    """Whether a line begins with a program."""
    return line.split(" ", 1)[0] in OURS | FOREIGN


def typed(block: Block) -> list[str]:
    """The commands of a block, whole: all of its lines, or those behind a prompt."""
    if block.kind == "commands":
        return command_lines(block.text)
    lines = block.text.splitlines()
    prompted = [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]
    return command_lines("\n".join(prompted))


def printed(block: Block) -> list[str]:
    """What a block says that a program printed."""
    if block.kind != "printed":
        return []
    return [line for line in block.text.splitlines() if not line.startswith(PROMPT)]
