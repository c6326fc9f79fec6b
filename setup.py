"""What pyproject.toml cannot say: how README reads where its folder is not.

Links and pictures of README are relative, for who has the repository. In what is installed
they name the tag of the version, below `project.urls`.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
PICTURES = (".gif", ".png", ".svg", ".webp")
LINK = re.compile(r'(\]\(|\b(?:src|srcset|href)=")(?![a-z]+:|#|/)([^)"\s]+)')


def absolute(text: str, source: str, tag: str) -> str:
    """The text, its links as addresses in the repository ``source`` at ``tag``."""

    def named(link: re.Match[str]) -> str:
        kind = "raw" if link[2].endswith(PICTURES) else "blob"
        return f"{link[1]}{source}/{kind}/{tag}/{link[2]}"

    return LINK.sub(named, text)


def read(name: str) -> str:
    """A file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    version = re.search(
        r'^__version__ = "(.+)"$', read("src/paceline/__init__.py"), re.MULTILINE
    )
    assert version is not None
    source = tomllib.loads(read("pyproject.toml"))["project"]["urls"]["Source"]
    setup(
        long_description=absolute(read("README.md"), source, f"v{version[1]}"),
        long_description_content_type="text/markdown",
    )
