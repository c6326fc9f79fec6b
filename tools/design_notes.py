"""Puts design notes, newest first, and the pages of rooms into the site's navigation.

A hook of MkDocs (`mkdocs.yml` names it): whoever writes a note, or makes a room, edits no
navigation. The sections ``Design notes`` and ``Rooms`` are filled; a navigation without one
of them is an error, since its pages would be missing without a word. The `README.md` of a
folder comes first. Waits: for the disk.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import ConfigurationError

SECTIONS = {"Design notes": "design", "Rooms": "rooms"}  # {section: folder}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the sections with the pages that there are.

    Raises:
        ConfigurationError: the navigation lacks one.
    """
    for section, folder in SECTIONS.items():
        found = list(_sections(config.nav, section))
        if len(found) != 1:
            raise ConfigurationError(
                f"mkdocs.yml: expected one section {section!r} in nav, got {len(found)}"
            )
        found[0][section] = pages(Path(config.docs_dir), folder)
    return config


def pages(docs: Path, folder: str) -> list[str]:
    """The pages of a folder below ``docs``: its README, then those with the last dates.

    Pages of rooms have no dates, and come as the alphabet has them.
    """
    files = {file.name: file for file in sorted((docs / folder).glob("*.md"))}
    first = [files.pop("README.md")] if "README.md" in files else []
    names = sorted(files, reverse=folder == SECTIONS["Design notes"])
    found = [*first, *(files[name] for name in names)]
    return [file.relative_to(docs).as_posix() for file in found]


def _sections(nav: Any, section: str) -> Iterator[dict[str, Any]]:  # noqa: ANN401  (YAML)
    """Every entry of the navigation that is the section."""
    for entry in nav if isinstance(nav, list) else ():
        for name, below in entry.items() if isinstance(entry, dict) else ():
            if name == section:
                yield entry
            else:
                yield from _sections(below, section)
