"""Puts every design note into the site's navigation, newest first.

A hook of MkDocs (`mkdocs.yml` names it): whoever writes a note edits no navigation. The
section ``Design notes`` is filled; a navigation without one is an error, since the notes
would be missing without a word. Waits: for the disk.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import ConfigurationError

SECTION = "Design notes"
FOLDER = "design"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the section with the notes that there are.

    Raises:
        ConfigurationError: the navigation has no such section.
    """
    found = list(_sections(config.nav))
    if len(found) != 1:
        raise ConfigurationError(
            f"mkdocs.yml: expected one section {SECTION!r} in nav, got {len(found)}"
        )
    found[0][SECTION] = notes(Path(config.docs_dir))
    return config


def notes(docs: Path) -> list[str]:
    """The notes below ``docs``, by the names that begin with their dates."""
    files = sorted((docs / FOLDER).glob("*.md"), reverse=True)
    return [file.relative_to(docs).as_posix() for file in files]


def _sections(nav: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401  (YAML)
    """Every entry of the navigation that is the section."""
    for entry in nav if isinstance(nav, list) else ():
        for name, below in entry.items() if isinstance(entry, dict) else ():
            if name == SECTION:
                yield entry
            else:
                yield from _sections(below)
