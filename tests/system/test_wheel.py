"""What is made for an index works where the repository is not, also read-only."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

import paceline
from setup import LINK, absolute

pytestmark = [
    *(pytest.mark.slow, pytest.mark.system, pytest.mark.around, pytest.mark.timeout(0)),
]

ROOT = Path(__file__).parents[2]
SCRIPT = re.compile(r"^```python\n(import torch\n.*?)^```", re.MULTILINE | re.DOTALL)
MADE = ("*.egg-info", "__pycache__", ".*")
BUILD = "import sys; from setuptools import build_meta as b; print(b.build_{}(sys.argv[1]))"
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
WAIT_S = 600.0


def done(*words: object, cwd: Path, environment: dict[str, str] | None = None) -> str:
    """What a command prints, on both streams."""
    ran = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def build(kind: str, folder: Path, into: Path) -> Path:
    """Have the build backend make a ``wheel`` or an ``sdist`` of a folder."""
    into.mkdir(exist_ok=True)
    printed = done(sys.executable, "-c", BUILD.format(kind), into, cwd=folder)
    return into / printed.split()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of what the sdist of this checkout holds."""
    place = tmp_path_factory.mktemp("built")
    checkout = place / "checkout"
    checkout.mkdir()
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, checkout)
    ignored = shutil.ignore_patterns(*MADE)
    shutil.copytree(ROOT / "src", checkout / "src", ignore=ignored)
    sdist = build("sdist", checkout, place / "dist")
    shutil.unpack_archive(sdist, place / "sources", filter="data")
    [sources] = (place / "sources").iterdir()
    assert {"CHANGELOG.md", "CITATION.cff", "LICENSE"} <= {
        p.name for p in sources.iterdir()
    }
    return build("wheel", sources, place / "dist")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel; what it needs is that of the one that tests."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q")
    options = ("--no-deps", "--no-index", "--no-compile")
    done(*pip, *options, wheel, cwd=place, environment=outside(place))
    [packages] = place.glob("lib/python*/site-packages")
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A folder with nothing but the script of the quickstart, and less to train."""
    found = SCRIPT.search((ROOT / "docs" / "quickstart.md").read_text())
    assert found
    script = tmp_path / "empty" / "train.py"
    script.parent.mkdir()
    script.write_text(found[1].replace("200_000", "20_000"))
    return script.parent


def outside(home: Path, **variables: str) -> dict[str, str]:
    """The environment of somebody who has no checkout."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PACELINE"))}
    return {**kept, "HOME": str(home), "OMP_NUM_THREADS": "1", **variables}


def test_what_an_index_shows_leads_somewhere(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        told = HeaderParser().parsestr(archive.read(name).decode())
        names = archive.namelist()

    assert told["Version"] == paceline.__version__
    assert {"dev", "docs", "around", "fuzz"}.isdisjoint(told.get_all("Provides-Extra"))
    page = told.get_payload()
    assert isinstance(page, str)
    assert page.startswith("# paceline")
    assert not LINK.search(page)
    assert not [n for n in names if n.startswith(("tests", "benchmarks", "setup"))]
    assert "paceline/dashboard/page/page.js" in names
    assert "paceline/py.typed" in names


def test_links_name_the_tag_and_pictures_the_file_itself() -> None:
    text = (
        "[a](docs/a.md#b) [c](https://c.org) [d](#d)\n"
        '![e](e.svg) <img src="f.png"> <source srcset="g.svg">'
    )
    assert absolute(text, "https://x.org", "v1") == (
        "[a](https://x.org/blob/v1/docs/a.md#b) [c](https://c.org) [d](#d)\n"
        '![e](https://x.org/raw/v1/e.svg) <img src="https://x.org/raw/v1/f.png"> '
        '<source srcset="https://x.org/raw/v1/g.svg">'
    )


def test_the_version_to_cite_is_that_of_the_package() -> None:
    assert f"\nversion: {paceline.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_quickstart_runs_from_an_empty_folder(
    installed: Path, empty: Path, tmp_path: Path
) -> None:
    environment = outside(tmp_path)

    warmed = done(installed / "bin/paceline", "warm", cwd=empty, environment=environment)
    alone = done(installed / "bin/python", "train.py", cwd=empty, environment=environment)
    run = (installed / "bin/paceline", "run", "--trainers", "2", "--job-dir", "runs/first")
    together = done(*run, "train.py", cwd=empty, environment=environment)

    assert warmed.startswith("compiling the row kernels, once")
    assert str(installed) in warmed
    for printed in (alone, together):
        assert re.search(r"records +60,000 *\n", printed), printed
        assert "compiling" not in printed


def test_a_read_only_installation_without_a_home_compiles_once_and_says_so(
    installed: Path, empty: Path, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = outside(installed, TMPDIR=str(temporary))
    unshared = ("unshare", "--map-root-user", "--mount")
    if subprocess.run([*unshared, "true"], check=False, capture_output=True).returncode:
        pytest.skip("a user may not have mounts of its own here (unshare --map-root-user)")
    closed = (*unshared, "sh", "-c", READ_ONLY, installed)
    run = (installed / "bin/paceline", "run", "--job-dir", "runs/first", "train.py")
    python = installed / "bin/python"

    assert "Read-only" in done(
        *closed, "sh", "-c", f"touch {installed}/x 2>&1 || true", cwd=empty
    )
    first = done(*closed, *run, cwd=empty, environment=environment)
    second = done(*closed, python, "train.py", cwd=empty, environment=environment)

    assert "compiling the row kernels, once" in first
    assert "compiling" not in second
    for printed in (first, second):
        assert re.search(r"records +60,000 *\n", printed), printed
