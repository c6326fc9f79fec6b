"""Plugins are the user's own modules, imported once in each process that needs them."""

import sys
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.launch.job.commands import load_plugins, require_named, resolved


def test_a_module_beside_the_script_is_named_by_its_file(tmp_path: Path) -> None:
    script, beside = tmp_path / "train.py", tmp_path / "rules_beside.py"
    beside.write_text("")
    assert resolved(["rules_beside", "json"], str(script)) == (str(beside), "json")
    assert resolved([str(beside)], "elsewhere.py") == (str(beside),)
    with pytest.raises(UsageError, match="there is no file"):
        resolved([str(tmp_path / "none.py")], str(script))


def test_a_plugin_is_imported_once(tmp_path: Path) -> None:
    plugin = tmp_path / "counted_plugin.py"
    plugin.write_text("import sys\nsys.loaded = getattr(sys, 'loaded', 0) + 1\n")
    try:
        load_plugins([str(plugin), "json", str(plugin)])
        assert sys.loaded == 1  # type: ignore[attr-defined]
        assert sys.modules["counted_plugin"].__file__ == str(plugin)
    finally:
        del sys.loaded  # type: ignore[attr-defined]
        del sys.modules["counted_plugin"]


@pytest.mark.parametrize("text", ["1 / 0\n", "import nothing_of_this_name\n"])
def test_a_plugin_that_fails_is_named(tmp_path: Path, text: str) -> None:
    plugin = tmp_path / "broken_plugin.py"
    plugin.write_text(text)
    with pytest.raises(UsageError, match=r"broken_plugin\.py: "):
        load_plugins([str(plugin)])
    assert "broken_plugin" not in sys.modules
    with pytest.raises(UsageError, match="--plugin nothing_of_this_name"):
        load_plugins(["nothing_of_this_name"])


def test_a_job_that_goes_on_imports_what_the_command_line_names_and_nothing_else() -> None:
    require_named([], ["rules"])
    require_named(["/job/rules.py", "json"], ["json", "/moved/rules.py"])
    with pytest.raises(UsageError, match=r"add --plugin '/a b/evil\.py' --plugin os$"):
        require_named(["/a b/evil.py", "rules", "os"], ["rules"])
