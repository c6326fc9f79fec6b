"""Makes the site of what lies in docs: what is in the navigation, and where links end.

A hook of MkDocs (`mkdocs.yml` names it): whoever writes a note, or makes a room, edits no
navigation. The sections ``Design notes`` and ``Rooms`` are filled; a navigation without one
of them is an error, since its pages would be missing without a word. The `README.md` of a
folder comes first, and design notes are there newest first. A link to a file of the
repository that is no page, such as a script of an example, leads nowhere on a site: its
path is told in its place. Waits: for the disk.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import ConfigurationError
from mkdocs.structure.pages import Page

SECTIONS = {"Design notes": "design", "Rooms": "rooms"}  # {section: folder}
OUTWARD = re.compile(r"\[([^\]\[]+)\]\((\.\./[^)\s#]+)\)")


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


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """The page without links to files of the repository beside ``docs``."""
    docs = Path(config.docs_dir)
    return without_outward(markdown, (docs / page.file.src_uri).parent, docs)


def without_outward(markdown: str, folder: Path, docs: Path) -> str:
    """Text in which links out of ``docs`` have become paths from the repository's top.

    ``folder`` is where links begin. One to what is not there stays: the build refuses it.
    """

    def told(link: re.Match[str]) -> str:
        place = (folder / link[2]).resolve()
        is_outward = place.is_relative_to(docs.parent) and not place.is_relative_to(docs)
        if not is_outward or not place.exists():
            return link[0]
        path = f"`{place.relative_to(docs.parent).as_posix()}`"
        return path if link[1].strip("`") in path else f"{link[1]} ({path})"

    return OUTWARD.sub(told, markdown)


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
