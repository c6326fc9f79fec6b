"""What the user of torchrun says of a job, for which there is no command line of ours.

====================  ==============================================================
PACELINE_CHECKPOINTS  where they lie; needed where there may be several machines
PACELINE_SERVERS      how many there are; 1
PACELINE_PACE         as for ``paceline run --pace``; sync
PACELINE_JOB_DIR      the job folder, on the machine that leads; runs/<time>-<script>
PACELINE_JOIN         where a launcher listens that was started by itself: it leads
PACELINE_PLAIN        1: between machines without TLS; 0
====================  ==============================================================

With ``PACELINE_JOIN`` the first four are the launcher's to say.

And what each machine says of its own address and of the run's secret:
`paceline.launch.job.own`, `paceline.launch.job.environment`.

Pure: the environment is an argument.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import xxhash

from paceline.config import JobConfig, Sync, parse_pace
from paceline.errors import UsageError
from paceline.launch.guests import Arrive
from paceline.launch.job import JOB_DIR, UserScript, tcp_address
from paceline.launch.torchrun.found import JOIN, Torchrun
from paceline.store.blobs import BlobStore
from paceline.transport.address import TcpAddress

CHECKPOINTS = "PACELINE_CHECKPOINTS"
SERVERS = "PACELINE_SERVERS"
PACE = "PACELINE_PACE"
PLAIN = "PACELINE_PLAIN"


class Wishes(NamedTuple):
    """What was said; None: nothing."""

    checkpoints: str = ""  # an absolute path or a URL
    servers: int = 1
    pace: str | None = None
    folder: Path | None = None
    join: TcpAddress | None = None
    is_plain: bool = False

    def config(self, run: str, torchrun: Torchrun) -> JobConfig:
        """The job: as many trainers as come, up to as many as torchrun may start.

        Raises:
            UsageError: the pace is none.
        """
        pace = Sync() if self.pace is None else parse_pace(self.pace)
        most = torchrun.most_machines * torchrun.processes
        return JobConfig(
            run=run,
            trainers=1,
            most_trainers=most,
            servers=self.servers,
            checkpoints=self.checkpoints,
            pace=pace,
        )


def digest_of(wishes: Wishes, script: UserScript, text: bytes, torchrun: Torchrun) -> str:
    """What two torchruns that mean the same job have in common.

    ``text``: what the script is; empty where that is a module.
    """
    own = ("--local-rank", "--local_rank")  # of one process
    arguments = [one for one in script.arguments if not one.startswith(own)]
    size = torchrun.processes, torchrun.most_machines
    meant = (*wishes, script.named, text, arguments, size)
    return xxhash.xxh3_64_hexdigest(repr(meant).encode(errors="surrogateescape"))


def refusal(
    arrive: Arrive, torchrun: Torchrun, wish: str, script: str, wait_s: float
) -> str:
    """Why one that comes is of another job than this torchrun has begun; or nothing."""
    if arrive.nonce == torchrun.nonce or arrive.wish == wish:
        return ""
    return (
        f"this machine still holds the job of {script} that another torchrun (process "
        f"{torchrun.parent}, --rdzv-id {torchrun.run}) has begun with another script, "
        f"other variables, processes or arguments: wait {wait_s:g} s after its end, or "
        "take another --rdzv-id"
    )


def told_to_go_on(arrive: Arrive, torchrun: Torchrun, script: str) -> str:
    """What one is told that comes to the job of an earlier torchrun; or nothing."""
    if arrive.nonce == torchrun.nonce:
        return ""
    return (
        f"goes on with the job of {script} that another torchrun (process "
        f"{torchrun.parent}) has begun under --rdzv-id {torchrun.run}: to begin anew, take "
        "another --rdzv-id"
    )


def read_wishes(environ: Mapping[str, str], torchrun: Torchrun) -> Wishes:
    """Read them, before anything is started.

    Raises:
        UsageError: one says nothing that can be, or one is missing.
    """
    _require_of_one_kind(environ)
    servers = environ.get(SERVERS) or "1"
    if not servers.isdecimal() or int(servers) < 1:
        raise UsageError(f"{SERVERS}={servers!r}: expected a number of at least 1")
    join, place = environ.get(JOIN), environ.get(CHECKPOINTS, "")
    if torchrun.most_machines > 1 and not (place or join):
        raise UsageError(
            f"torchrun may start this job on {torchrun.most_machines} machines, and what "
            f"is on any of them keeps checkpoints: name a place that all reach with "
            f"{CHECKPOINTS}, such as a shared folder or an s3:// URL"
        )
    if place:
        place = BlobStore(place if "://" in place else str(Path(place).absolute())).url
    folder, pace = environ.get(JOB_DIR), environ.get(PACE) or None
    if pace is not None:
        try:
            parse_pace(pace)
        except UsageError as error:
            raise UsageError(f"{PACE}: {error}") from error
    return Wishes(
        place,
        int(servers),
        pace,
        Path(folder) if folder else None,
        tcp_address(JOIN, join) if join else None,
        environ.get(PLAIN) == "1",
    )


def _require_of_one_kind(environ: Mapping[str, str]) -> None:
    """Refuse what would be of no effect, and what is neither yes nor no."""
    plain = environ.get(PLAIN) or "0"
    if plain not in {"0", "1"}:
        raise UsageError(f"{PLAIN}={plain!r}: expected 1 (without TLS) or 0")
    for name in (SERVERS, PACE, JOB_DIR, CHECKPOINTS):
        if environ.get(JOIN) and environ.get(name):
            raise UsageError(
                f"{name} with {JOIN}: the launcher at {environ[JOIN]} leads, and says so "
                f"with its own options: unset {name}"
            )
