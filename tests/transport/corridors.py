"""Small messages, a service that remembers, and the transports to try them on."""

import contextlib
import itertools
import shutil
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import final

import msgspec

from paceline.errors import UsageError
from paceline.timing import Deadline, SystemClock
from paceline.transport.address import TcpListening
from paceline.transport.connection import Connection
from paceline.transport.frames import DATA_LIMITS, ByteArray, Limits
from paceline.transport.handshake import OPEN, Hello, HelloCheck, Secret, Security, Way
from paceline.transport.listener import DEFAULT_BOUNDS, Bounds, Listener
from paceline.transport.opening import connect, listen
from paceline.transport.service import Peer, Reply, Service
from paceline.transport.streams.sockets import hold_port

CLOCK = SystemClock()
PATIENCE_S = 30.0  # for what must happen; tests that pass never wait so long
HELLO = Hello(run="run-1", role="trainer-0", incarnation=7)
SECRET = Secret(bytes(range(32)))


class Say(msgspec.Struct, frozen=True, tag=True):
    """Answered at once by `Said`, with the same buffers."""

    text: str


class Park(msgspec.Struct, frozen=True, tag=True):
    """Answered when the test says so."""

    name: str


class Choosy(msgspec.Struct, frozen=True, tag=True):
    """Checks itself when it is made, as specs do; answered by nothing."""

    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise UsageError(f"number must be >= 0, got {self.number}")


class Unchecked(msgspec.Struct, frozen=True, tag="Choosy"):
    """A `Choosy` of somebody who does not check."""

    number: int


class Fail(msgspec.Struct, frozen=True, tag=True):
    """Makes the service raise."""


class Odd(msgspec.Struct, frozen=True, tag=True):
    """Known to nobody at the other end."""

    thing: object = None


class Said(msgspec.Struct, frozen=True, tag=True):
    text: str


@final
class Memory:
    """A service that remembers; every method may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards all below
        self.received_messages: list[tuple[Peer, msgspec.Struct]] = []
        self.received_buffers: list[list[ByteArray]] = []
        self.parked: dict[str, Reply] = {}
        self.gone: list[Peer] = []

    def received(
        self, peer: Peer, message: msgspec.Struct, buffers: list[ByteArray], reply: Reply
    ) -> None:
        with self._changed:
            self.received_messages.append((peer, message))
            self.received_buffers.append(buffers)
            if isinstance(message, Park):
                self.parked[message.name] = reply
            self._changed.notify_all()
        if isinstance(message, Say):
            reply(Said(message.text), buffers)
        elif isinstance(message, Fail):
            raise RuntimeError("asked to fail")

    def disconnected(self, peer: Peer) -> None:
        with self._changed:
            self.gone.append(peer)
            self._changed.notify_all()

    def wait_parked(self, *names: str) -> list[Reply]:
        with self._changed:
            assert self._changed.wait_for(
                lambda: set(names) <= set(self.parked), PATIENCE_S
            )
            return [self.parked[name] for name in names]

    def wait_gone(self, count: int) -> list[Peer]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.gone) >= count, PATIENCE_S)
            return list(self.gone)


class Corridor(ABC):
    """Listens and connects over one transport, and cleans up."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.connections: list[Connection] = []

    @property
    @abstractmethod
    def address(self) -> str: ...

    @property
    def security(self) -> Security:
        return OPEN

    def listen(
        self,
        service: Service,
        limits: Limits = DATA_LIMITS,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> Listener:
        listener = listen(
            self.address,
            service,
            hello_check=HelloCheck("run-1", "server-0", {"trainer"}, self.security),
            request_type=lambda _: Say | Park | Fail | Choosy,
            clock=CLOCK,
            limits=limits,
            bounds=bounds,
        )
        self.listeners.append(listener)
        return listener

    def connect(self, hello: Hello = HELLO, limits: Limits = DATA_LIMITS) -> Connection:
        connection = connect(
            self.address, hello, Said | Choosy, limits, CLOCK, PATIENCE_S, self.security
        )
        self.connections.append(connection)
        return connection

    def close(self) -> None:
        for connection in self.connections:
            connection.close()
        for listener in self.listeners:
            listener.close(PATIENCE_S)
        assert not [t for t in threading.enumerate() if t.name.startswith("paceline")]


@final
class UnixCorridor(Corridor):
    def __init__(self) -> None:
        super().__init__()
        # A folder of the test itself could be too long for a socket path.
        self.folder = Path(tempfile.mkdtemp(prefix="pl-"))

    @property
    def path(self) -> Path:
        return self.folder / "x.sock"

    @property
    def address(self) -> str:
        return f"unix:{self.path}"

    def close(self) -> None:
        super().close()
        assert not self.path.exists()
        shutil.rmtree(self.folder)


@final
class TcpCorridor(Corridor):
    def __init__(self, host: str = "127.0.0.1", way: Way | None = None) -> None:
        super().__init__()
        self.way = way
        self._held = contextlib.ExitStack()
        self.listening = self._held.enter_context(hold_port(TcpListening(host, host)))
        self.where = self.listening.reached

    @property
    def address(self) -> str:
        return str(self.where)

    @property
    def security(self) -> Security:
        return Security(SECRET, way=self.way)

    def release(self) -> None:
        """Let go of the port; nobody has listened at it."""
        self._held.close()

    def close(self) -> None:
        super().close()
        self.release()


@final
class InProcessCorridor(Corridor):
    _numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self._address = f"inproc:test-{next(self._numbers)}"

    @property
    def address(self) -> str:
        return self._address


def run_threads(*actions: "threading.Thread") -> None:
    """Start, and join with a deadline."""
    deadline = Deadline(CLOCK, PATIENCE_S)
    for thread in actions:
        thread.start()
    for thread in actions:
        thread.join(deadline.remaining_s())
        assert not thread.is_alive()


def say(connection: Connection, text: str) -> msgspec.Struct:
    return connection.call(Say(text), timeout_s=PATIENCE_S).message


def caught(action: Callable[[], object], errors: list[Exception]) -> Callable[[], None]:
    """The action, with what it raises kept in ``errors``."""

    def run() -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001  (the test looks at it)
            errors.append(error)

    return run
