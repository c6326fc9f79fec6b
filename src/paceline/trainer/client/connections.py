"""The connections of one trainer to all others: made when needed, again after a loss.

Any thread may ask for one. Waits: to connect, as long as the connector does.
"""

import threading
from collections.abc import Callable, Mapping
from typing import final

from paceline.errors import PeerLost
from paceline.failpoints import failpoint
from paceline.ids import COORDINATOR, role_kind
from paceline.messages.data import Push
from paceline.messages.locking import ApplyStep, CommitStep
from paceline.messages.shared import Message
from paceline.messages.trainer import Tick
from paceline.transport.connection import Connection

ConnectCoordinator = Callable[[int], Connection]  # incarnation -> a fresh connection
ConnectServer = Callable[[str, int], Connection]  # (address, incarnation) -> the same


@final
class Courier:
    """The connections of one trainer: made when needed, and again after a loss."""

    def __init__(self, coordinator: ConnectCoordinator, server: ConnectServer) -> None:
        self._connect_coordinator, self._connect_server = coordinator, server
        self._lock = threading.Lock()  # guards the fields below; nobody connects in it
        self._connections: dict[str, Connection] = {}  # {role: connection}
        self._addresses: dict[str, str] = {}  # {role: where that connection was made to}
        self._connects: dict[str, threading.Lock] = {}  # {role: who connects to it}
        self._is_closed = False
        self.times_met = 0  # connections to the coordinator
        self.doors: Courier | None = None  # the way to other trainers, once there is one

    def reach(self, role: str, address: str, incarnation: int) -> Connection:
        """The connection to a role; the coordinator needs no address.

        Raises:
            TransportError: nobody is there.
        """
        if self.doors is not None and role_kind(role) == "trainer":
            return self.doors.reach(role, address, incarnation)
        if (connection := self._there(role, address)) is not None:
            return connection
        with self._lock:
            connects = self._connects.setdefault(role, threading.Lock())
        # To connect may take seconds where nothing answers, and beats go on meanwhile.
        with connects:
            if (connection := self._there(role, address)) is not None:
                return connection
            if role == COORDINATOR:
                connection = self._connect_coordinator(incarnation)
                self.times_met += 1
            else:
                connection = self._connect_server(address, incarnation)
            with self._lock:
                is_closed = self._is_closed
                if not is_closed:
                    self._connections[role], self._addresses[role] = connection, address
            if is_closed:
                connection.close()
                raise PeerLost("the session was closed")
            return connection

    def _there(self, role: str, address: str) -> Connection | None:
        """The connection to a role at this address, if there is one; others are closed."""
        with self._lock:
            if self._is_closed:
                raise PeerLost("the session was closed")
            connection = self._connections.get(role)
            if connection is None or self._addresses[role] == address:
                return connection
            del self._connections[role]
        connection.close()
        return None

    def call(
        self, role: str, address: str, incarnation: int, message: Message, timeout_s: float
    ) -> Message:
        """Ask once, without numbers; a connection that was lost is dropped.

        Raises:
            TransportError: nobody is there, or there was no answer in time.
        """
        connection = self.reach(role, address, incarnation)
        try:
            answer = connection.call(message, timeout_s=timeout_s).message
        except PeerLost:
            self.drop(role, connection)
            raise
        assert isinstance(answer, Message)
        return answer

    def drop(self, role: str, connection: Connection) -> None:
        """Close a connection; the next `reach` makes another."""
        if self.doors is not None and role_kind(role) == "trainer":
            self.doors.drop(role, connection)
            return
        with self._lock:
            if self._connections.get(role) is connection:
                del self._connections[role]
        connection.close()

    def close(self) -> None:
        """Close all; nobody is reached any more."""
        with self._lock:
            self._is_closed = True
            connections = list(self._connections.values())
            self._connections.clear()
        for connection in connections:
            connection.close()


def fail_before(calls: Mapping[str, Message]) -> None:
    """Let the fault armed for these questions, {role: question}, happen if it is due."""
    asked = calls.get(COORDINATOR)
    if isinstance(asked, Tick):
        failpoint("trainer.before_tick")
        if asked.round is not None:
            failpoint("trainer.prepared")
    elif isinstance(asked, CommitStep):
        failpoint("trainer.held")
    elif any(isinstance(one, Push) and one.completes for one in calls.values()):
        failpoint("trainer.completing")
    elif any(isinstance(one, ApplyStep) and not one.is_dropped for one in calls.values()):
        failpoint("trainer.committed")
