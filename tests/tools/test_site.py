"""The documentation builds into a site that is whole, and that asks nobody else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import draw_batch, draw_life

ROOT = Path(__file__).parents[2]
BUILD_S = 240.0  # 5 s on an idle machine
LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=\"([^\"]+)\"")
FROM_ELSEWHERE = re.compile(r"(?:https?:)?//")
STYLE_FROM_ELSEWHERE = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])(?:https?:)?//")


def loaded_from_elsewhere(page: str) -> list[str]:
    """What a page would fetch from another host as it is shown."""
    return [place for place in LOADED.findall(page) if FROM_ELSEWHERE.match(place)]


def build(folder: Path) -> None:
    command = ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr


@pytest.mark.slow
@pytest.mark.around
def test_the_site_is_whole_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    build(tmp_path)
    front = (tmp_path / "index.html").read_text()
    notes = [
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        for folder in ("design", "rooms")
        for path in (ROOT / "docs" / folder).glob("*.md")
        if path.stem != "README"  # the folder's index.html
    ]
    assert notes
    for name in ("quickstart.html", "command-line.html", *notes):
        assert (tmp_path / name).is_file()
        assert f'href="{name}"' in front, f"{name} is not in the navigation"
    for page in tmp_path.rglob("*.html"):
        text = page.read_text()
        assert not loaded_from_elsewhere(text), page
        assert 'class="mermaid"' not in text, f"{page}: mermaid comes from a CDN; draw SVG"
    for style in tmp_path.rglob("*.css"):
        assert not STYLE_FROM_ELSEWHERE.search(style.read_text()), style


def test_a_page_that_loads_from_elsewhere_is_caught() -> None:
    script = '<script async src="https://cdn.example/x.js"></script>'
    font = '<link rel="stylesheet" href="//fonts.example/css">'
    ours = '<img alt="a" src="images/run.png"><a href="https://example.org">'
    assert loaded_from_elsewhere(script + font + ours) == [
        "https://cdn.example/x.js",
        "//fonts.example/css",
    ]


@pytest.mark.parametrize("name", draw_batch.PICTURES)
def test_the_picture_of_a_batch_is_what_its_script_draws(name: str) -> None:
    drawn = draw_batch.draw(draw_batch.PICTURES[name])
    assert (draw_batch.IMAGES / name).read_text() == drawn, "python -m tools.draw_batch"


@pytest.mark.parametrize("name", draw_life.PICTURES)
def test_the_picture_of_a_job_is_what_its_script_draws(name: str) -> None:
    drawn = draw_life.draw(draw_life.read_moments(), draw_life.PICTURES[name])
    assert (draw_life.IMAGES / name).read_text() == drawn, "python -m tools.draw_life"
