"""Who may say what to whom: the connections and listeners of a job, link by link.

============  =========================================  ==========================
listener      roles and their requests                   replies
============  =========================================  ==========================
coordinator   trainer: `TrainerRequest`                  `TrainerReply`
              server: `ServerReport`                     `Orders`, `Waiting`
              launcher: `LauncherReport`, `AskStatus`    `LauncherOrders`, `JobStatus`
              operator: `Scale`, `ChangePace`            `Done`, `Waiting`
              operator: `Interrupt`, `TakeCut`           `Done`, `Waiting`, `Saved`
              observer: `AskStatus`                      `JobStatus`
server        trainer: `DataRequest`                     `DataReply`
trainer       trainer: `PeerRequest`                     `PeerReply`
launcher      host: `JoinHost`, `HostReport`,            `HostJoined`, `HostOrders`,
              `ExamReport`                               `ExamJoined`, `ExamOrders`
              observer, operator: `AskPlace`,            `JobPlace`, `LogSizes`,
              `AskLogs`, `AskLog`                        `LogPiece`
host          launcher: nothing; it only dials           nothing
              host: `Echo`                               `Echoed`
============  =========================================  ==========================

The same for Unix sockets, TCP and in process: the address chooses. Over TCP both ends prove
the run's secret, beyond loopback within TLS, unless `Wires.way` says "plain".

Waits: to connect, `CONNECT_S` at most. Any thread.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from paceline.errors import UsageError
from paceline.ids import COORDINATOR, HOST, LAUNCHER, OPERATOR, RoleKind, role_kind
from paceline.launch.job.addresses import near_address
from paceline.launch.job.environment import Place
from paceline.messages.data import DataReply, DataRequest
from paceline.messages.hosts import (
    AskLog,
    AskLogs,
    AskPlace,
    Echo,
    Echoed,
    ExamJoined,
    ExamOrders,
    ExamReport,
    HostJoined,
    HostOrders,
    HostReport,
    JobPlace,
    JoinHost,
    LogPiece,
    LogSizes,
)
from paceline.messages.peers import PeerReply, PeerRequest
from paceline.messages.server import Orders, ServerReport
from paceline.messages.shared import Done, Refusal, Waiting
from paceline.messages.trainer import Saved, TrainerReply, TrainerRequest
from paceline.messages.watching import (
    AskStatus,
    ChangePace,
    Interrupt,
    JobStatus,
    LauncherOrders,
    LauncherReport,
    Scale,
    TakeCut,
)
from paceline.timing import Clock
from paceline.transport.connection import Connection, MessageType
from paceline.transport.frames import CONTROL_LIMITS, DATA_LIMITS, Limits
from paceline.transport.handshake import Hello, HelloCheck, Secret, Security, Way
from paceline.transport.listener import DEFAULT_BOUNDS, Bounds, Listener
from paceline.transport.opening import connect, listen
from paceline.transport.service import Service

CONNECT_S = 5.0
PEER_CONNECT_S = 2.0  # trainers come and go: the coordinator is asked who is there
OBSERVER = "observer"

# One thread brings what is there, as one group of the journal's; the other one is there
# while that writes. More of them would only take Python from each other.
_COORDINATOR_BOUNDS = Bounds(num_threads=2, num_together=64)

# Two are enough: what comes is copied, or waits without a thread.
_DOOR_BOUNDS = Bounds(num_threads=2)

_REQUESTS: dict[RoleKind, MessageType] = {
    "trainer": TrainerRequest,
    "server": ServerReport,
    "launcher": LauncherReport | AskStatus,
    "operator": Scale | ChangePace | TakeCut | Interrupt,
    "observer": AskStatus,
}
_AT_DOOR: dict[RoleKind, MessageType] = {
    "host": JoinHost | HostReport | ExamReport,
    "operator": AskPlace | AskLogs | AskLog,
    "observer": AskPlace | AskLogs | AskLog,
}
_ORDERS: MessageType = Orders | Waiting | Refusal
_LAUNCHER_ORDERS: MessageType = LauncherOrders | JobStatus | Refusal
_STATUS: MessageType = JobStatus | Refusal
_DONE: MessageType = Done | Saved | Waiting | Refusal
_AT_HOST: dict[RoleKind, MessageType] = {"launcher": AskStatus, "host": Echo}
_HOST_ORDERS: MessageType = HostJoined | HostOrders | ExamJoined | ExamOrders | Refusal
_TOLD_AT_DOOR: MessageType = JobPlace | LogSizes | LogPiece | Refusal


class Wires(NamedTuple):
    """Makes the connections and listeners of one role in one job.

    Listening raises `UsageError` at an address that cannot be taken.
    """

    run: str
    role: str
    clock: Clock
    connect_s: float = CONNECT_S
    secret: Secret | None = None  # of the run; does not print
    near: Path | None = None  # sockets of this host, in a job of several
    way: Way | None = None  # "plain": by word, without TLS; see `Security`

    @property
    def security(self) -> Security:
        """What closes the links over TCP."""
        return Security(self.secret, self.way)

    def listen_as_coordinator(self, address: str, service: Service) -> Listener:
        """Let everyone of the run in."""
        return self._listen_to(set(_REQUESTS), address, service, _COORDINATOR_BOUNDS)

    def listen_to_outside(self, address: str, service: Service) -> Listener:
        """The same at a second address, for who looks at an embedded job or changes it."""
        return self._listen_to({"operator", "observer"}, address, service, _DOOR_BOUNDS)

    def listen_as_server(self, address: str, service: Service) -> Listener:
        """Let the trainers of the run in."""
        return self._listen_to_trainers(DataRequest, address, service, DEFAULT_BOUNDS)

    def listen_near(self, address: str, service: Service) -> Listener | None:
        """The same for those on the server's own host, where there are other hosts."""
        if self.near is None:
            return None
        return self.listen_as_server(near_address(self.near, address), service)

    def listen_as_trainer(self, addresses: Sequence[str], service: Service) -> Listener:
        """Let the other trainers of the run in, at the first address that can be taken.

        One left over by a process of this trainer that hangs cannot be.
        """
        assert addresses
        for address in addresses:
            try:
                return self._listen_to_trainers(PeerRequest, address, service, _DOOR_BOUNDS)
            except UsageError as taken:
                why = taken
        raise why

    def listen_as_launcher(self, address: str, service: Service) -> Listener:
        """Let hosts, observers and operators in, also if they do not know yet which run."""
        return self._listen_to_few(_AT_DOOR, address, service, unknowing=_AT_DOOR)

    def listen_as_host(self, address: str, service: Service) -> Listener:
        """Be there to be dialled back by the launcher, which must mean this host.

        The run of these wires is the host's token: another host of the job, at the same
        port, has another one. Other hosts may try whether they get here.
        """
        assert self.role == HOST
        return self._listen_to_few(_AT_HOST, address, service)

    def to_other_host(self, address: str, token: str) -> Connection:
        """A connection by which a host tries another one, and only that."""
        assert self.role == HOST
        return self._replace(run=token)._connect(address, 0, Echoed | Refusal)

    def to_launcher(self, address: str) -> Callable[[], Connection]:
        """How a host reaches the launcher."""
        return lambda: self._connect(address, 0, _HOST_ORDERS)

    def look_in(self, address: str) -> Connection:
        """A connection that asks the launcher where the job is, and for its logs."""
        return self._connect(address, 0, _TOLD_AT_DOOR)

    def to_host(self) -> Callable[[str, str], Connection]:
        """How the launcher reaches a host: (address, token) -> connection."""
        assert self.role == LAUNCHER
        return lambda address, token: self._replace(run=token)._connect(
            address, 0, _HOST_ORDERS
        )

    def to_trainer(self) -> Callable[[str, int], Connection]:
        """How a trainer reaches another one: (address, incarnation) -> connection."""
        wires = self._replace(connect_s=PEER_CONNECT_S)
        return lambda address, incarnation: wires._connect(
            address, incarnation, PeerReply, DATA_LIMITS
        )

    def to_coordinator(self, address: str) -> Callable[[int], Connection]:
        """How a trainer or server reaches the coordinator: incarnation -> connection."""
        reply = TrainerReply if role_kind(self.role) == "trainer" else _ORDERS
        return lambda incarnation: self._connect(address, incarnation, reply)

    def to_server(self) -> Callable[[str, int], Connection]:
        """How a trainer reaches a server: (address, incarnation) -> connection."""
        return lambda address, incarnation: self._connect(
            self._nearest(address), incarnation, DataReply, DATA_LIMITS
        )

    def to_coordinator_as_launcher(self, address: str) -> Callable[[], Connection]:
        """How the launcher reaches the coordinator."""
        assert self.role == LAUNCHER
        return lambda: self._connect(address, 0, _LAUNCHER_ORDERS)

    def observe(self, address: str) -> Connection:
        """A connection that asks for the status only."""
        return self._connect(address, 0, _STATUS)

    def operate(self, address: str) -> Connection:
        """A connection that changes a running job from outside."""
        assert self.role == OPERATOR
        return self._connect(address, 0, _DONE)

    def _nearest(self, address: str) -> str:
        if self.near is None:
            return address
        near = near_address(self.near, address)
        return near if Path(near.removeprefix("unix:")).exists() else address

    def _connect(
        self,
        address: str,
        incarnation: int,
        reply_type: MessageType,
        limits: Limits = CONTROL_LIMITS,
    ) -> Connection:
        hello = Hello(run=self.run, role=self.role, incarnation=incarnation)
        return connect(
            address, hello, reply_type, limits, self.clock, self.connect_s, self.security
        )

    def _listen_to(
        self, kinds: Collection[RoleKind], address: str, service: Service, bounds: Bounds
    ) -> Listener:
        return listen(
            address,
            service,
            hello_check=HelloCheck(self.run, COORDINATOR, kinds, self.security),
            request_type=lambda role: _REQUESTS[role_kind(role)],
            clock=self.clock,
            limits=CONTROL_LIMITS,
            bounds=bounds,
        )

    def _listen_to_trainers(
        self, request_type: MessageType, address: str, service: Service, bounds: Bounds
    ) -> Listener:
        return listen(
            address,
            service,
            hello_check=HelloCheck(self.run, self.role, {"trainer"}, self.security),
            request_type=lambda _: request_type,
            clock=self.clock,
            limits=DATA_LIMITS,
            bounds=bounds,
        )

    def _listen_to_few(
        self,
        requests: Mapping[RoleKind, MessageType],
        address: str,
        service: Service,
        unknowing: Collection[RoleKind] = (),
    ) -> Listener:
        return listen(
            address,
            service,
            hello_check=HelloCheck(self.run, self.role, requests, self.security, unknowing),
            request_type=lambda role: requests[role_kind(role)],
            clock=self.clock,
            limits=CONTROL_LIMITS,
            bounds=_DOOR_BOUNDS,
        )


def wires_of(place: Place, clock: Clock) -> Wires:
    """Those of the process that stands in a place."""
    return Wires(
        place.run,
        place.role,
        clock,
        secret=place.secret,
        near=place.sockets if place.host else None,
        way=way_of(is_plain=place.is_plain),
    )


def way_of(*, is_plain: bool) -> Way | None:
    """How links between machines are closed: within TLS, but for who says otherwise."""
    return "plain" if is_plain else None
