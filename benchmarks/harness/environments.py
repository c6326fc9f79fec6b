"""Virtual environments of the peers, one each below ``build/peers``, with exact versions.

::

    benchmarks/pins/tensorflow.txt  --pip-->  build/peers/tensorflow/bin/python

Peers want versions of shared libraries that exclude each other, and none of them is to be
installed where paceline is. torch's own (RPC, Gloo, DDP) are in our environment: the same
torch on both sides.

Waits: for pip, `INSTALL_S` at most, where an environment is not there yet.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from benchmarks.harness.record import ROOT, say
from paceline.launch.job.environment import KEPT_MEMORY

PINS = ROOT / "benchmarks" / "pins"
PEERS = ROOT / "build" / "peers"
OURS = "ours"  # the environment that runs this
INSTALL_S = 1800.0
ONE_THREAD = (  # whatever a peer computes with, one of these is its own
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)


class PeerNotInstalledError(RuntimeError):
    """A peer could not be installed; the message ends with pip's own words."""


def wait_python(peer: str, pins: Path = PINS, folder: Path = PEERS) -> Path:
    """The interpreter of a peer's environment, which is made if it is not there.

    Args:
        peer: ``ours``, or a file of ``benchmarks/pins``.
        pins: where the files with versions lie.
        folder: where environments are made.

    Raises:
        PeerNotInstalledError: there is no such file, or pip could not do what it says.
    """
    if peer == OURS:
        return Path(sys.executable)
    wanted = pins / f"{peer}.txt"
    if not wanted.is_file():
        known = ", ".join(sorted(path.stem for path in pins.glob("*.txt")))
        raise PeerNotInstalledError(f"peer {peer!r}: expected one of {known}, {OURS}")
    folder.mkdir(parents=True, exist_ok=True)
    place, mark = folder / peer, folder / peer / ".installed"
    with _held(folder / f"{peer}.lock"):
        if not is_current(mark, wanted):
            say(f"installing {peer} into {place.relative_to(folder.parent)} (minutes)")
            shutil.rmtree(place, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(place)], peer)
            pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            flags = ["--no-input", "--disable-pip-version-check"]
            _run([*pip, *flags, "-r", str(wanted)], peer)
            mark.write_text(_digest(wanted), encoding="utf-8")
    return place / "bin" / "python"


def is_current(mark: Path, wanted: Path) -> bool:
    """Whether an environment was made whole, of exactly the versions that are wanted."""
    return mark.is_file() and mark.read_text(encoding="utf-8") == _digest(wanted)


def versions(peer: str) -> dict[str, str]:
    """{distribution: version} that a peer is installed with; empty for ``ours``."""
    if peer == OURS:
        return {}
    lines = (PINS / f"{peer}.txt").read_text(encoding="utf-8").split()
    return dict(line.split("==") for line in lines)


def one_thread(base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a candidate: one computing thread, freed memory is kept."""
    path = os.pathsep.join(filter(None, [str(ROOT), base.get("PYTHONPATH")]))
    return {
        **base,
        **KEPT_MEMORY,
        **dict.fromkeys(ONE_THREAD, "1"),
        "PYTHONPATH": path,
        "PYTHONUNBUFFERED": "1",
    }


def _digest(wanted: Path) -> str:
    return sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()


def _run(command: list[str], peer: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=INSTALL_S
    )
    if done.returncode:
        words = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise PeerNotInstalledError(f"{peer}: {' '.join(command)} failed:\n{words}")


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Nobody else makes the same environment meanwhile."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
