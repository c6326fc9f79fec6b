"""Notes and rooms come into the navigation by themselves, or the build says why not."""

from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="mkdocs-material is not installed (group docs)")

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import ConfigurationError

from tools.design_notes import on_config, without_outward

pytestmark = pytest.mark.around


def config(docs: Path, nav: list[object]) -> MkDocsConfig:
    found = MkDocsConfig()
    found.load_dict({"docs_dir": str(docs), "nav": nav})
    return found


def test_notes_fill_their_section_newest_first_and_rooms_theirs(tmp_path: Path) -> None:
    folder, rooms = tmp_path / "design", tmp_path / "rooms"
    folder.mkdir()
    rooms.mkdir()
    for name in ("2026-01-02-old.md", "2026-11-22-new.md", "README.md", "picture.svg"):
        (folder / name).touch()
    for name in ("server.md", "README.md", "data.md"):
        (rooms / name).touch()
    nav: list[object] = [
        {"Front": "index.md"},
        {"Inside": [{"Design notes": []}, {"Rooms": []}]},
    ]
    filled = on_config(config(tmp_path, nav)).nav
    assert filled == [
        {"Front": "index.md"},
        {
            "Inside": [
                {
                    "Design notes": [
                        "design/README.md",
                        "design/2026-11-22-new.md",
                        "design/2026-01-02-old.md",
                    ]
                },
                {"Rooms": ["rooms/README.md", "rooms/data.md", "rooms/server.md"]},
            ]
        },
    ]


def test_a_navigation_without_the_section_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match="one section 'Design notes' in nav, got 0"
    ):
        on_config(config(tmp_path, [{"Front": "index.md"}]))


def test_a_link_to_a_script_is_told_as_its_path_and_others_stay(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "design").mkdir(parents=True)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "train.py").touch()
    (docs / "words.md").touch()
    text = "[train.py](../examples/train.py), [six](../examples), [gone](../no.py)"
    assert without_outward(text, docs, docs) == (
        "`examples/train.py`, six (`examples`), [gone](../no.py)"
    )
    inward = "[words](../words.md)"
    assert without_outward(inward, docs / "design", docs) == inward
