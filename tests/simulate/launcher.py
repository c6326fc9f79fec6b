"""A launcher in the wind tunnel: exit reports, restarts, replacements."""

import signal
from collections.abc import Callable
from typing import final

from paceline.ids import COORDINATOR, LAUNCHER
from paceline.messages.shared import Message
from paceline.messages.watching import Exited, LauncherOrders, LauncherReport
from tests.simulate.world import Answer, SimProcess, World

POLL_S = 0.3
RESTART_S = 0.2


@final
class SimLauncher(SimProcess):
    """Starts every role again until the trainers have ended well; then time ends."""

    def __init__(self, world: World, starts: dict[str, Callable[[], SimProcess]]) -> None:
        """Start all roles: ``starts`` is {role: how to start its process}."""
        super().__init__(world, LAUNCHER)
        self._starts = starts
        self._exits: tuple[Exited, ...] = ()
        self._working = {role for role in starts if role.startswith("trainer")}
        world.ended = self._saw_end
        for start in starts.values():
            world.start(start())
        self.after(POLL_S, self._poll)

    def received(self, sender: str, message: Message, answer: Answer) -> None:
        """Nobody asks a launcher."""
        raise AssertionError(f"{sender} asked {message!r} of the launcher: {answer}")

    def _saw_end(self, process: SimProcess, code: int) -> None:
        role = process.role
        is_crash = code == -signal.SIGSEGV
        self._exits = (*self._exits, Exited(role, process.pid, code, is_crash))
        if code == 0 and role.startswith("trainer"):
            self._working.remove(role)
            if not self._working:
                self.world.agenda.end()
        else:
            self.after(RESTART_S, self._start_again, role)

    def _start_again(self, role: str) -> None:
        self.world.start(self._starts[role]())

    def _poll(self) -> None:
        exits = self._exits

        def got(reply: Message | None) -> None:
            if isinstance(reply, LauncherOrders):
                self._exits = self._exits[len(exits) :]
                for role, pid in reply.replace.items():
                    process = self.world.processes.get(role)
                    if process is not None and process.pid == pid:
                        self.world.kill(process)
            self.after(POLL_S, self._poll)

        self.ask(COORDINATOR, LauncherReport(exits=exits), got, timeout_s=1.0)
