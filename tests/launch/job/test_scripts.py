"""A script that is not there is told before anything starts, and nothing of it runs."""

from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.launch.job.commands import UserScript, file_of, require_script


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "alone.py").touch()
    for package in ("made_package", "made_package/inner", "made_runnable"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "made_package" / "inner" / "train.py").touch()
    (tmp_path / "made_runnable" / "__main__.py").touch()
    (tmp_path / "made_package" / "bare").mkdir()
    (tmp_path / "made_package" / "bare" / "train.py").touch()
    (tmp_path / "made_namespace").mkdir()
    (tmp_path / "made_namespace" / "train.py").touch()
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        *("alone", "made_package.inner.train", "made_runnable", "made_namespace.train"),
        *("made_package.bare.train", "zipimport", "paceline.cli.main"),
        *("timeit", "json.tool", "torch.utils.collect_env"),
    ],
)
def test_a_module_is_found_from_the_working_folder_and_not_imported(
    here: Path, name: str
) -> None:
    require_script(UserScript(name, (), is_module=True), here)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("made_nothing", "there is no module 'made_nothing' in /"),
        ("made_package.train", "there is no module 'made_package.train'"),
        ("alone.train", "there is no module 'alone.train'"),
        ("made_package", "made_package is a package, and has no module __main__"),
        ("made_namespace", "made_namespace is a package"),
        ("", "-m takes the name of a module like package.train, got ''"),
        ("made_package..train", "-m takes the name of a module"),
        ("alone.py", "-m takes the name of a module, got the file alone.py: leave out -m"),
    ],
)
def test_a_module_that_is_not_there_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.chdir(here)
    with pytest.raises(UsageError, match=message):
        require_script(UserScript(name, (), is_module=True), here)


def test_a_script_is_a_file(here: Path) -> None:
    require_script(UserScript(str(here / "alone.py"), ()), here)
    with pytest.raises(UsageError, match="there is no script"):
        require_script(UserScript(str(here / "made_package"), ()), here)


def test_a_job_is_called_by_a_modules_last_word() -> None:
    assert file_of(UserScript("made.inner.train", (), is_module=True)) == "train"
    assert file_of(UserScript("a/b.c/train.py", ())) == "a/b.c/train.py"
