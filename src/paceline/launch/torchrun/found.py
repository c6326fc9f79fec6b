"""What torchrun says of itself, to a process that it has started.

Where machines meet is in no variable. ``MASTER_ADDR`` and ``MASTER_PORT`` name a store that
need not be the same on two machines: with the c10d rendezvous the first process of each
round may make a new one, and machines that were there before keep the old one; or there is
none yet. The store of the rendezvous is the same for as long as torchrun lives: its address
is an argument of torchrun, which is above this process.

Pure: environment and command line are arguments.
"""

import argparse
import contextlib
import io
import signal
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from paceline.errors import UsageError
from paceline.transport.address import TcpAddress, parse_address

RUN_ID = "TORCHELASTIC_RUN_ID"
JOIN = "PACELINE_JOIN"
STORE_PORT = 29400  # torchrun's own, where an endpoint names none
_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_PROGRAMS = ("torchrun", "run.py", "launch.py")
_BACKENDS = ("c10d", "static")
_STORE = ("MASTER_ADDR", "MASTER_PORT")

# torchrun ends its processes by the signal that it was sent itself; at a change by SIGTERM.
FORWARDED: tuple[signal.Signals, ...] = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP")
    if hasattr(signal, name)
)

# Of one process, not of its machine's servers.
OF_ONE_PROCESS = (
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME"),
    *("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"),
    *_STORE,
)


class Torchrun(NamedTuple):
    """The torchrun that has started a process.

    Args:
        run: its id of the run, ``--rdzv-id``; not always one of its own.
        parent: its process, also where a wrapper is between.
        processes: that it starts on this machine.
        machines: how many are in this round.
        most_machines: how many there may be.
        store: where they meet; None: this machine is alone.
        is_elastic: machines may come and go.
        started: when ``parent`` was, in ticks of the kernel's clock.
    """

    run: str
    parent: int
    processes: int
    machines: int
    most_machines: int
    store: TcpAddress | None
    is_elastic: bool
    started: int = 0

    @property
    def nonce(self) -> str:
        """What no other torchrun of this machine has, since it was booted."""
        return f"{self.parent}-{self.started}"


def is_in_torchrun(environ: Mapping[str, str]) -> bool:
    """Whether torchrun has started this process."""
    return RUN_ID in environ


def is_torchrun(command_line: Sequence[str]) -> bool:
    """Whether a process with this command line is torchrun."""
    return _asked(command_line) is not None


def read_torchrun(
    environ: Mapping[str, str], parent: int, command_line: Sequence[str]
) -> Torchrun:
    """What is known of it; ``command_line`` is its process's own.

    Raises:
        UsageError: a variable is no number, the place of its store is no address, or its
            machines meet in no store of torch's own.
    """
    asked = _asked(command_line)
    machines = _number(environ, "GROUP_WORLD_SIZE")
    backend = "static" if asked is None else str(asked.rdzv_backend)
    most = machines if asked is None else max(machines, _most(str(asked.nnodes)))
    if asked is not None and asked.standalone:
        most = 1
    store = None
    if most > 1:
        if backend not in _BACKENDS and not environ.get(JOIN):
            raise UsageError(
                f"--rdzv-backend {backend}: expected one of {', '.join(_BACKENDS)}, in "
                "whose store machines agree which of them leads; or start a launcher by "
                f"itself, and name it with {JOIN} (docs/torchrun.md)"
            )
        endpoint = str(asked.rdzv_endpoint) if asked is not None else ""
        store = _store(environ, "" if backend == "static" else endpoint)
    return Torchrun(
        environ[RUN_ID],
        parent,
        _number(environ, "LOCAL_WORLD_SIZE"),
        machines,
        most,
        store,
        is_elastic=most > 1 and backend != "static",
    )


def _asked(command_line: Sequence[str]) -> argparse.Namespace | None:
    """The options of torchrun, as torch reads them; None: it is not that command."""
    from torch.distributed.run import get_args_parser  # noqa: PLC0415  (slow)

    for index, word in enumerate(command_line):
        is_module = word == "-m" and command_line[index + 1 : index + 2]
        if is_module and command_line[index + 1] in _MODULES:
            options = command_line[index + 2 :]
        elif index and PurePath(word).name in _PROGRAMS:
            options = command_line[index + 1 :]
        else:
            continue
        with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            return get_args_parser().parse_args(list(options))
        return None
    return None


def _most(nodes: str) -> int:
    """Of ``2`` or ``1:3``."""
    last = nodes.rpartition(":")[2]
    return int(last) if last.isdecimal() else 1


def _store(environ: Mapping[str, str], endpoint: str) -> TcpAddress:
    if not endpoint:
        endpoint = ":".join(environ.get(name, "") for name in _STORE)
    elif ":" not in endpoint.rpartition("]")[2]:
        endpoint = f"{endpoint}:{STORE_PORT}"
    try:
        address = parse_address(f"tcp:{endpoint}")
    except UsageError as error:
        raise UsageError(f"where torchrun's machines meet: {error}") from error
    assert isinstance(address, TcpAddress)
    return address


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    if not text.isdecimal():
        raise UsageError(f"{name}={text!r}: expected a number, as torchrun sets it")
    return int(text)
