"""Real gradients in virtual time: the product decides who trains what, and when.

The coordinator, the server and the trainers of a forecast exchange the messages of a job;
here the numbers travel beside them::

    Pull    the trainer's copy holds the shared values, as of the round that the reply names
    Push    its copy takes the batches of the window, with the trainer's own optimizer;
            how far that has led is kept under (incarnation, number of the push)
    round   the shared values take the outer step on exactly the deltas that the coordinator
            has committed, with its weights; or, without rounds, on each as it is applied

So a second of computing costs no second, and a death costs exactly what the decisions say.

Trainers that die are drawn beforehand (`draw_deaths`), the same for all compared.
"""

import itertools
import signal
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple, cast, final

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from paceline.coordinator.durable.outcomes import (
    AnyOutcome,
    CutCommitted,
    LeaseGranted,
    RoundCommitted,
    TaskDone,
)
from paceline.data.order import records_at
from paceline.forecast.agenda import Agenda
from paceline.forecast.coordinator import Coordinator
from paceline.forecast.gauge import Gauge
from paceline.forecast.models.models import draw_compute, mean_s
from paceline.forecast.plan import Plan
from paceline.forecast.server import Server
from paceline.forecast.trainer import ForecastPlace, Trainer
from paceline.ids import LAUNCHER, Window, trainer_id
from paceline.messages.data import Pull, Pulled, Push, Pushed
from paceline.messages.shared import Message
from paceline.messages.watching import Exited, LauncherReport
from paceline.pace.policy import outer_kind, outer_step, updates_in_rounds
from paceline.params.dense import OptimizeBlock, weighted_sum
from paceline.trainer.acts import Lost

LONGEST_S = 1e7
MOST_ROUNDS_KEPT = 64  # of values that a trainer may still be answered with

Death = tuple[float, int]  # when, and which trainer


class Learning(NamedTuple):
    """What is trained.

    Args:
        make: a fresh model, the same one at each call.
        optimizer: the trainers' own, for a model.
        loss: of a model on the records of these indices, int64 (n,).
        judge: what is written down of a model, now and then.
        rate: the learning rate by the share of the job that is done, as a factor; None:
            it stays as it is. All trainers follow the job's own count.
        is_tracked: the script tracks the trainers' own optimizer: with every cut the state
            of one of them is kept, and a process that is new begins with it.
    """

    make: Callable[[], nn.Module]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    loss: Callable[[nn.Module, torch.Tensor], torch.Tensor]
    judge: Callable[[nn.Module], dict[str, float]]
    rate: Callable[[float], float] | None = None
    is_tracked: bool = False


class Seen(NamedTuple):
    """The shared model at a moment."""

    seconds: float  # since the first lease
    batches: int  # that have had their effect
    told: dict[str, float]


class Outcome(NamedTuple):
    """What a run came to.

    ``goodput`` is the share of all trainers' time that went into batches which had their
    effect, from the first lease to the end of the last task.
    """

    seconds: float
    batches: int
    goodput: float
    updates: int
    deaths: int
    curve: list[Seen]


def draw_deaths(every_s: float, until_s: float, trainers: int, seed: int) -> list[Death]:
    """A Poisson process: one of the trainers dies every so often, whichever."""
    random, moment_s = Random(f"{seed} deaths"), 0.0
    found: list[Death] = []
    while (moment_s := moment_s + random.expovariate(1 / every_s)) < until_s:
        found.append((moment_s, random.randrange(trainers)))
    return found


def train(
    plan: Plan,
    learning: Learning,
    *,
    deaths: Sequence[Death] = (),
    restart_s: float = 0.0,
    judge_every: int = 0,
) -> Outcome:
    """Run a plan to its end with real numbers.

    Args:
        plan: the job; without deaths of its own.
        learning: what is trained.
        deaths: seconds from the first lease on.
        restart_s: until a process that has died is back, and joins.
        judge_every: batches between two looks at the shared model; 0: only at the end.
    """
    assert plan.deaths is None, "deaths are given one by one"
    return _Run(plan, learning, deaths, restart_s, judge_every).outcome()


@final
class _Copy:
    """A trainer's own parameters and optimizer."""

    def __init__(self, learning: Learning) -> None:
        self.model = learning.make()
        self.optimizer = learning.optimizer(self.model)
        self._rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.anchor = parameters_to_vector(self.model.parameters()).detach()

    def load(self, values: torch.Tensor) -> None:
        self.anchor = values
        vector_to_parameters(values.clone(), self.model.parameters())

    def set_rate(self, factor: float) -> None:
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = factor * rate

    def delta(self) -> torch.Tensor:
        return self.anchor - parameters_to_vector(self.model.parameters()).detach()


@final
class _Numbers:
    """Values and deltas of a run."""

    def __init__(self, plan: Plan, learning: Learning, judge_every: int) -> None:
        self.curve: list[Seen] = []
        self.batches = self.updates = 0
        self.now_s: Callable[[], float] = lambda: 0.0  # since the first lease
        self._learning, self._stage = learning, plan.stage()
        self._shared = learning.make()
        start = parameters_to_vector(self._shared.parameters()).detach().clone()
        hyper = outer_step(plan.pace)
        self._hyper = hyper
        self._outer = OptimizeBlock(start, outer_kind(plan.pace), hyper)
        self._in_rounds = updates_in_rounds(plan.pace)
        self._rounds = {0: start.clone()}  # {round: values}
        self._copies: dict[Trainer, _Copy] = {}
        self._deltas: dict[tuple[int, int], torch.Tensor] = {}  # {(incarnation, number)}
        self._judge_every, self._judge_at = judge_every, 0
        self._wanted = num_batches(plan)
        self._tracked: dict[str, Any] | None = None  # the state that was kept last

    def pushes(self, trainer: Trainer, push: Push) -> None:
        """A trainer sends what it has come to: here it computes it."""
        key = (push.incarnation, push.number)
        if key in self._deltas:
            return
        copy, learning = self._copies[trainer], self._learning
        if learning.rate is not None:
            copy.set_rate(learning.rate(self.batches / self._wanted))
        for records in self._batches(push.window):
            copy.optimizer.zero_grad()
            learning.loss(copy.model, records).backward()
            copy.optimizer.step()
        self._deltas[key] = copy.delta()

    def applied(self, push: Push) -> None:
        """A push is one update."""
        delta = self._deltas.pop((push.incarnation, push.number), None)
        if delta is not None:
            self._step(delta, _count(push.window))

    def committed(self, outcome: RoundCommitted) -> None:
        """Exactly these pushes are one update."""
        found = [
            (self._deltas.pop((one.incarnation, one.number)), one.weight)
            for one in outcome.contributions
        ]
        if found:
            deltas, weights = zip(*found, strict=True)
            count = sum(_count(one.window) for one in outcome.contributions)
            self._step(weighted_sum(deltas, weights), count)
        self._rounds[outcome.round] = self._outer.values.clone()
        self._rounds.pop(outcome.round - MOST_ROUNDS_KEPT, None)

    def pulled(self, trainer: Trainer, at_round: int) -> None:
        """A trainer has the values of a round; without rounds, those of now."""
        copy = self._copies.get(trainer)
        if copy is None:
            copy = self._copies[trainer] = _Copy(self._learning)
            if self._tracked is not None:
                copy.optimizer.load_state_dict(deepcopy(self._tracked))
        in_rounds = self._in_rounds
        copy.load(self._rounds[at_round] if in_rounds else self._outer.values.clone())

    def cut(self) -> None:
        """A cut is there; what is tracked of one trainer is in it."""
        if self._learning.is_tracked and self._copies:
            first = min(self._copies, key=lambda trainer: trainer.role)
            self._tracked = deepcopy(self._copies[first].optimizer.state_dict())

    def forget(self, trainer: Trainer) -> None:
        """A process is gone, with all that it held."""
        self._copies.pop(trainer, None)

    def judge(self) -> None:
        """Write down how the shared model does."""
        vector_to_parameters(self._outer.values, self._shared.parameters())
        with torch.no_grad():
            told = self._learning.judge(self._shared)
        self.curve.append(Seen(self.now_s(), self.batches, told))

    def _step(self, delta: torch.Tensor, batches: int) -> None:
        self._outer.apply(delta, self._hyper)
        self.updates += 1
        self.batches += batches
        if self._judge_every and self.batches >= self._judge_at:
            self._judge_at += self._judge_every
            self.judge()

    def _batches(self, window: Window) -> list[torch.Tensor]:
        """The records of each batch, in order."""
        spec, found = self._stage, []
        for span in window.spans:
            for batch in range(span.first, span.last + 1):
                first = span.task * spec.task_size + batch * spec.batch_size
                positions = first + np.arange(
                    spec.batch_records(span.task, batch, batch), dtype=np.int64
                )
                records = records_at(
                    positions, spec.records, spec.seed, window.epoch, spec.shuffle
                )
                found.append(torch.from_numpy(records))
        return found


def num_batches(plan: Plan) -> int:
    """Batches of a job."""
    stage = plan.stage()
    return stage.epochs * sum(map(stage.num_batches, range(stage.num_tasks())))


def _count(window: Window) -> int:
    return sum(span.last - span.first + 1 for span in window.spans)


@final
class _Landing:
    """A trainer as the server sees it: answers land beside its numbers."""

    def __init__(self, trainer: Trainer, message: Message, numbers: _Numbers) -> None:
        self._trainer, self._message, self._numbers = trainer, message, numbers

    base = property(
        lambda self: self._trainer.base,
        lambda self, value: setattr(self._trainer, "base", value),
    )
    pushed_s = property(
        lambda self: self._trainer.pushed_s,
        lambda self, value: setattr(self._trainer, "pushed_s", value),
    )
    in_free_s = property(
        lambda self: self._trainer.in_free_s,
        lambda self, value: setattr(self._trainer, "in_free_s", value),
    )

    def got(self, number: int, role: str, reply: Message | Lost) -> None:
        """A reply is here."""
        message = self._message
        if isinstance(message, Push) and isinstance(reply, Pushed):
            if reply.verdict == "applied":
                self._numbers.applied(message)
        elif isinstance(message, Pull) and isinstance(reply, Pulled):
            self._numbers.pulled(self._trainer, reply.round)
        self._trainer.got(number, role, reply)


@final
class _Servers:
    """The forecast's server, with numbers beside the messages."""

    def __init__(self, server: Server, numbers: _Numbers) -> None:
        self._server, self._numbers = server, numbers

    def ask(self, reader: Trainer, number: int, message: Message) -> None:
        """A trainer sends a request to all servers."""
        if isinstance(message, Push):
            self._numbers.pushes(reader, message)
        self._server.ask(_Landing(reader, message, self._numbers), number, message)


@final
class _Run:
    """One run, while it lasts."""

    def __init__(
        self,
        plan: Plan,
        learning: Learning,
        deaths: Sequence[Death],
        restart_s: float,
        judge_every: int,
    ) -> None:
        self._plan, self._deaths, self._restart_s = plan, deaths, restart_s
        self._numbers = _Numbers(plan, learning, judge_every)
        self._numbers.now_s = lambda: self._agenda.now_s - (self._began_s or 0.0)
        self._agenda = Agenda()
        self._coordinator = Coordinator(self._agenda, plan, self._decided)
        gauge = Gauge()
        server = Server(self._agenda, plan, self._coordinator, gauge)
        carried = cast("Server", _Servers(server, self._numbers))  # it is asked the same
        self._place = ForecastPlace(self._agenda, plan, self._coordinator, carried, gauge)
        self._pids = itertools.count(1)
        self._trainers: dict[int, Trainer] = {}
        self._working, self._died = plan.trainers, 0
        self._began_s: float | None = None
        self._done_s = 0.0
        for index in range(plan.trainers):
            self._start(index)

    def outcome(self) -> Outcome:
        """Run to the end."""
        plan, wanted = self._plan, num_batches(self._plan)
        assert self._agenda.run(LONGEST_S), "it does not end"
        numbers = self._numbers
        assert numbers.batches == wanted, f"{numbers.batches} of {wanted} had their effect"
        assert self._began_s is not None
        seconds = self._done_s - self._began_s
        useful_s = wanted * mean_s(plan.compute, plan.trainers)
        numbers.now_s = lambda: seconds
        numbers.judge()
        goodput = useful_s / (seconds * plan.trainers)
        return Outcome(seconds, wanted, goodput, numbers.updates, self._died, numbers.curve)

    def got(self, number: int, role: str, reply: Message) -> None:
        """The coordinator knows of an exit."""

    def _start(self, index: int) -> None:
        plan, pid = self._plan, next(self._pids)
        luck = Random(
            f"{plan.seed} compute {index} {pid if index in self._trainers else 0}"
        )
        compute = draw_compute(plan.compute, index, luck)
        self._trainers[index] = Trainer(
            trainer_id(index), pid, self._place, compute, None, self._has_ended
        )

    def _has_ended(self, trainer: Trainer) -> None:
        self._working -= 1
        self._numbers.forget(trainer)
        if not self._working:
            self._agenda.end()

    def _kill(self, index: int) -> None:
        trainer = self._trainers[index]
        if not trainer.is_alive:
            return  # it is away already, or has done its work
        trainer.is_alive = False
        self._died += 1
        self._numbers.forget(trainer)
        exits = (Exited(trainer.role, trainer.pid, -signal.SIGKILL),)
        self._coordinator.ask(LAUNCHER, LauncherReport(exits=exits), self, 0)
        self._agenda.at(self._agenda.now_s + self._restart_s, self._start, index)

    def _decided(self, outcomes: list[AnyOutcome]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, RoundCommitted):
                self._numbers.committed(outcome)
            elif isinstance(outcome, CutCommitted):
                self._numbers.cut()
            elif isinstance(outcome, TaskDone):
                self._done_s = self._agenda.now_s
            elif isinstance(outcome, LeaseGranted) and self._began_s is None:
                self._began_s = self._agenda.now_s
                for moment_s, index in self._deaths:
                    self._agenda.at(self._began_s + moment_s, self._kill, index)
