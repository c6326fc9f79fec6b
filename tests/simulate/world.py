"""Processes that die, and a network that does not care, in the virtual time of forecasts.

A process handles messages and timers; both are void once it has died. A question is
answered, or times out: requests and replies are lost, repeated and delayed on their own.
"""

import itertools
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import Any, final

from paceline.forecast.agenda import Agenda, Happening
from paceline.messages.shared import Message
from tests.simulate.faults import FaultRates, Faults

Answer = Callable[[Message], None]
GotReply = Callable[[Message | None], None]  # None: timed out


class Crash(Exception):  # noqa: N818  (a fault that was asked for, not an error)
    """The process that is being simulated dies here."""


class SimProcess(ABC):
    """One incarnation of a role's process in the world."""

    def __init__(self, world: "World", role: str) -> None:
        """Start now, under a new pid."""
        self.world = world
        self.role = role
        self.pid = world.new_pid()
        self.is_alive = True
        self.frozen_until_s = 0.0

    @abstractmethod
    def received(self, sender: str, message: Message, answer: Answer) -> None:
        """A request arrived."""

    def may_crash(self, fault: str) -> None:
        """A place where dying matters.

        Raises:
            Crash: the fault happens here.
        """
        if self.world.faults.happens(fault):
            raise Crash

    def act(self, what: Happening, *arguments: Any) -> None:
        """Run one act of this process: not if it is dead, later if it is frozen."""
        if not self.is_alive:
            return
        if self.frozen_until_s > self.world.now_s:
            self.world.agenda.at(self.frozen_until_s, self.act, what, *arguments)
            return
        try:
            what(*arguments)
        except Crash:
            self.world.kill(self)

    def after(self, seconds: float, what: Happening, *arguments: Any) -> None:
        """Run an act of this process later."""
        self.world.agenda.at(self.world.now_s + seconds, self.act, what, *arguments)

    def ask(
        self,
        to: str,
        message: Message,
        got: GotReply,
        timeout_s: float,
        *,
        in_order: bool = False,
    ) -> None:
        """Ask another role; ``got`` is called once, with the reply or None.

        With ``in_order`` it arrives behind what this process has asked that role so
        before, as on one connection.
        """
        self.world.ask(self, to, message, got, timeout_s, in_order=in_order)


@final
class World:
    """One simulated cluster."""

    def __init__(self, seed: int, rates: FaultRates) -> None:
        """Everything that follows is a function of the seed and the rates."""
        self.random = Random(seed)
        self.faults = Faults(self.random, rates)
        self.agenda = Agenda()
        self.processes: dict[str, SimProcess] = {}  # {role: its running process}
        self.ended: Callable[[SimProcess, int], None] = lambda _process, _code: None
        self._opens_s: dict[tuple[str, str], float] = {}  # {(from, to): a clog's end}
        self._arrived_s: dict[tuple[int, str], float] = {}  # {(pid, to): last, in order}
        self._pids = itertools.count(1000)

    @property
    def now_s(self) -> float:
        """The moment that it is."""
        return self.agenda.now_s

    def new_pid(self) -> int:
        """A pid that no process had before."""
        return next(self._pids)

    def start(self, process: SimProcess) -> None:
        """Let a process be the one of its role."""
        self.processes[process.role] = process

    def kill(self, process: SimProcess) -> None:
        """End a process by a signal: of somebody else's, or of its own doing."""
        self.end(process, self.random.choice([-signal.SIGKILL, -signal.SIGSEGV]))

    def end(self, process: SimProcess, code: int) -> None:
        """End a process; messages and timers of it are void from here on."""
        if process.is_alive:
            process.is_alive = False
            if self.processes.get(process.role) is process:
                del self.processes[process.role]
            self.ended(process, code)

    def ask(
        self,
        sender: SimProcess,
        to: str,
        message: Message,
        got: GotReply,
        timeout_s: float,
        *,
        in_order: bool = False,
    ) -> None:
        """Carry a question and its answer, or neither."""
        is_open = True

        def settle(reply: Message | None) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                got(reply)

        def answer(reply: Message) -> None:
            for delay_s in self._deliveries(to, sender.role):
                sender.after(delay_s, settle, reply)

        def arrive() -> None:
            receiver = self.processes.get(to)
            if receiver is not None:
                receiver.act(receiver.received, sender.role, message, answer)

        for delay_s in self._deliveries(sender.role, to):
            moment_s = self.now_s + delay_s
            if in_order:
                link = (sender.pid, to)
                moment_s = max(moment_s, self._arrived_s.get(link, 0.0))
                self._arrived_s[link] = moment_s
            self.agenda.at(moment_s, arrive)
        sender.after(timeout_s, settle, None)

    def _deliveries(self, sender: str, receiver: str) -> list[float]:
        """How long each copy of a message takes; none of it may arrive."""
        if self.faults.happens("loss"):
            return []
        link = (sender, receiver)
        if self.faults.happens("clog"):
            self._opens_s[link] = self.now_s + self.faults.clog_s()
        held_s = max(0.0, self._opens_s.get(link, 0.0) - self.now_s)
        delays = [held_s + self.faults.delay_s()]
        if self.faults.happens("repeat"):
            delays.append(self.faults.delay_s() * 5)
        return delays
