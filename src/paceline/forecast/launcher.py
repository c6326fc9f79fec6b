"""The launcher of a forecast: starts trainers, lets processes die, brings them back.

Pure: the agenda's time is the only one, and luck is drawn from the seed.
"""

import itertools
import signal
from random import Random
from typing import final

from paceline.forecast.models import Draw, draw_compute, draw_pauses
from paceline.forecast.server import SERVER
from paceline.forecast.trainer import ForecastPlace, Trainer
from paceline.ids import LAUNCHER, trainer_id
from paceline.messages.shared import Message
from paceline.messages.watching import Exited, LauncherReport


@final
class ForecastLauncher:
    """Starts all trainers, each again whenever it has died; ends with the last one."""

    def __init__(self, place: ForecastPlace) -> None:
        plan = place.plan
        self.trainers: dict[str, Trainer] = {}  # those that run now, by role
        self._place = place
        self._pids = itertools.count(1)
        self._draws = [self._draw(index) for index in range(plan.trainers)]
        self._working = plan.trainers
        self._luck = Random(f"{plan.seed} deaths")
        for index in range(plan.trainers):
            self._start(index)
        if plan.deaths is not None:
            self._doom_server()

    def got(self, number: int, role: str, reply: Message) -> None:
        """The coordinator knows of an exit."""

    def _draw(self, index: int) -> tuple[Draw, Draw | None]:
        plan = self._place.plan
        compute = draw_compute(plan.compute, index, Random(f"{plan.seed} compute {index}"))
        if plan.spread:
            factor = Random(f"{plan.seed} spread {index}").lognormvariate(0, plan.spread)
            compute = _scaled(compute, factor)
        if plan.pauses is None:
            return compute, None
        return compute, draw_pauses(plan.pauses, Random(f"{plan.seed} pause {index}"))

    def _start(self, index: int) -> None:
        role, (compute, pause) = trainer_id(index), self._draws[index]
        trainer = Trainer(
            role, next(self._pids), self._place, compute, pause, self._has_ended
        )
        self.trainers[role] = trainer
        deaths = self._place.plan.deaths
        if deaths is not None:
            agenda = self._place.agenda
            dies_s = agenda.now_s + self._luck.expovariate(1 / deaths.mean_s)
            agenda.at(dies_s, self._kill, index, trainer)

    def _has_ended(self, trainer: Trainer) -> None:
        self._working -= 1
        del self.trainers[trainer.role]
        if not self._working:
            self._place.agenda.end()

    def _kill(self, index: int, trainer: Trainer) -> None:
        if not trainer.is_alive:
            return
        trainer.is_alive = False
        self._place.gauge.deaths["trainer"] += 1
        self._report(trainer.role, trainer.pid)
        deaths, agenda = self._place.plan.deaths, self._place.agenda
        assert deaths is not None
        agenda.at(agenda.now_s + deaths.restart_s, self._start, index)

    def _doom_server(self) -> None:
        """Any of the servers: as many times as often as one of them."""
        deaths, agenda = self._place.plan.deaths, self._place.agenda
        assert deaths is not None
        rate = self._place.plan.servers / deaths.mean_s
        agenda.at(agenda.now_s + self._luck.expovariate(rate), self._kill_server)

    def _kill_server(self) -> None:
        deaths, place = self._place.plan.deaths, self._place
        assert deaths is not None
        place.gauge.deaths["server"] += 1
        self._report(SERVER, place.server.pid)
        place.server.die()
        place.agenda.at(place.agenda.now_s + deaths.restart_s, self._bring_back)

    def _bring_back(self) -> None:
        self._place.server.come_back()
        self._doom_server()

    def _report(self, role: str, pid: int) -> None:
        report = LauncherReport(exits=(Exited(role, pid, -signal.SIGKILL),))
        self._place.coordinator.ask(LAUNCHER, report, self, 0)


def _scaled(draw: Draw, factor: float) -> Draw:
    return lambda: factor * draw()
