"""A picture for pages is seen by day and by night."""

from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.watch.draw import draw_run
from paceline.watch.pictures import AT_NIGHT, COLORS, STYLE, import_pyplot, save


def write(picture: Path) -> str:
    pyplot = import_pyplot()
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots()
        axes.barh([0], [1], color=COLORS[0])
        axes.set_title("a bar")
        save(figure, picture)
        pyplot.close(figure)
    return picture.read_text(encoding="utf-8")


def test_dark_pages_get_other_colors_and_no_white_ground(tmp_path: Path) -> None:
    written = write(tmp_path / "one.svg")
    assert f"fill: {COLORS[0]}" in written
    assert f'[style*="fill: {COLORS[0]}"] {{ fill: {AT_NIGHT[COLORS[0]]}' in written
    assert "prefers-color-scheme: dark" in written
    assert "fill: #ffffff" not in written


def test_the_same_figure_makes_the_same_file(tmp_path: Path) -> None:
    assert write(tmp_path / "a" / "one.svg") == write(tmp_path / "b" / "one.svg")


@pytest.mark.parametrize("name", ["one.xyz", "one", "one.pdf"])
def test_another_ending_is_refused_with_those_that_there_are(
    tmp_path: Path, name: str
) -> None:
    expected = rf"expected a file that ends with \.png or \.svg, got .*{name}$"
    with pytest.raises(UsageError, match=expected):
        write(tmp_path / "a" / name)
    with pytest.raises(UsageError, match=expected):
        draw_run(tmp_path / "events that are not read yet", tmp_path / name, "a run")
    assert not list(tmp_path.iterdir())
