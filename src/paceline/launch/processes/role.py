"""What a coordinator or server process runs; its role comes from the environment.

SIGTERM closes it cleanly. When the fork server dies, a server dies at once, the
coordinator by SIGTERM. If the launcher is gone too, the coordinator then removes the
sockets, which nobody else would; a launcher that lives starts all of them again.

A room's service is imported when its role is run: a coordinator must not pay for torch.

Waits: for SIGTERM, or a server for its orders to shut down. The main thread.
"""

import contextlib
import faulthandler
import logging
import os
import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING

from paceline.config import JobConfig
from paceline.errors import JobFailed, UsageError
from paceline.events import EventLog
from paceline.ids import role_kind
from paceline.launch.job import (
    JobDir,
    Place,
    Wires,
    load_plugins,
    reached,
    read_place,
    remove_sockets,
    wires_of,
)
from paceline.launch.processes.parent import die_with_parent, is_gone
from paceline.store.blobs import BlobStore
from paceline.store.journal import Journal
from paceline.timing import SystemClock

if TYPE_CHECKING:
    from paceline.coordinator.service import CoordinatorService
    from paceline.server.service import ServerService

LOOK_EVERY_S = 0.2
CLOSE_S = 4  # a role that has not closed by then writes its stacks to the log and ends


def run_role(parent: int) -> None:
    """Run the role that the environment names to its end; it dies with ``parent``.

    Raises:
        UsageError: the environment names no job.
        PacelineError: the role could not be filled.
    """
    place = read_place(os.environ)
    if place is None:
        raise UsageError("a role is started by `paceline run`, which sets its environment")
    is_coordinator = role_kind(place.role) == "coordinator"
    ending = _note_sigterm()
    die_with_parent(parent, signal.SIGTERM if is_coordinator else signal.SIGKILL)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    job = JobDir(place.job_dir)
    config = job.read_config()
    with contextlib.ExitStack() as stack:
        if is_coordinator:
            stack.callback(_remove_sockets_of_the_dead, place)
            run_coordinator(place, job, config, ending)
        else:
            run_server(place, job, config, ending)
    faulthandler.cancel_dump_traceback_later()


def run_coordinator(
    place: Place, job: JobDir, config: JobConfig, ending: threading.Event
) -> None:
    """Coordinate the job until ``ending``.

    Raises:
        JobFailed: a decision failed, so that only a restart can go on.
    """
    wires = wires_of(place, SystemClock())
    with contextlib.ExitStack() as stack:
        address = place.address or place.coordinator
        service = open_coordinator(stack, job, config, wires, address)
        while not ending.wait(LOOK_EVERY_S):
            if service.is_broken:
                raise JobFailed("a decision failed; what is journalled holds: see above")


def open_coordinator(
    stack: contextlib.ExitStack,
    job: JobDir,
    config: JobConfig,
    wires: Wires,
    address: str,
    gather_s: float = 0.0,
) -> "CoordinatorService":
    """Coordinate a job until the stack is closed; for ``gather_s`` see `Keeper`.

    Raises:
        StoreError: another coordinator holds the journal, or it is damaged.
        UsageError: the address cannot be taken.
    """
    from paceline.coordinator.service import CoordinatorService  # noqa: PLC0415  (see above)

    journal = Journal(job.journal)
    stack.callback(journal.close)
    events = EventLog(job.events)
    stack.callback(events.close)
    store = BlobStore(job.cuts_of(config), is_begun=True)
    service = CoordinatorService(config, journal, store, wires.clock, events, gather_s)
    stack.callback(service.close)
    stack.enter_context(wires.listen_as_coordinator(address, service))
    service.start()
    return service


def run_server(
    place: Place, job: JobDir, config: JobConfig, ending: threading.Event
) -> None:
    """Serve a share of the parameters until ``ending``, or until ordered to shut down.

    Raises:
        UsageError: a plugin cannot be imported.
    """
    load_plugins(config.plugins)
    wires = wires_of(place, SystemClock())
    with contextlib.ExitStack() as stack:
        service = open_server(stack, job, config, wires, place.address, place.coordinator)
        while not ending.is_set() and not service.wait_over(LOOK_EVERY_S):
            pass


def open_server(
    stack: contextlib.ExitStack,
    job: JobDir,
    config: JobConfig,
    wires: Wires,
    address: str,
    coordinator: str,
) -> "ServerService":
    """Serve at an address until the stack is closed.

    Raises:
        UsageError: the address cannot be taken.
    """
    from paceline.server.service import ServerService  # noqa: PLC0415  (imports torch)

    to_coordinator, store = (
        wires.to_coordinator(coordinator),
        BlobStore(job.cuts_of(config), is_begun=True),
    )
    told = reached(address)
    service = ServerService(wires.role, config, told, to_coordinator, store, wires.clock)
    stack.callback(service.close)
    stack.enter_context(wires.listen_as_server(address, service))
    if (near := wires.listen_near(told, service)) is not None:
        stack.enter_context(near)
    service.start()
    return service


def _note_sigterm() -> threading.Event:
    """An event that SIGTERM sets; from then on closing has `CLOSE_S`."""
    ending = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        faulthandler.dump_traceback_later(CLOSE_S, exit=True)
        ending.set()

    signal.signal(signal.SIGTERM, note)
    return ending


def _remove_sockets_of_the_dead(place: Place) -> None:
    """Without a launcher nobody else removes them; all other processes are gone too."""
    if is_gone(place.launcher):
        remove_sockets(place.sockets)
