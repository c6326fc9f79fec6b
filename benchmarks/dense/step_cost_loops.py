"""One process of the step-cost benchmark: a trainer's loop, and the plain one beside it.

``python benchmarks/step_cost_loops.py --out result.json --plan '{"model": "dense", ...}'``

A trainer of the job that the environment names, or of an embedded one. Blocks of its steps
and of the plain loop's take turns, on the same batches. Processor time is that of the
kernel's clocks, which count nanoseconds. Of paceline it uses public names alone, so that it
is the same loop for whichever version it runs with.

Waits: for the job.
"""

import argparse
import collections
import contextlib
import json
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, final

import psutil
import torch
from torch import Tensor, nn
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    mse_loss,
)

import paceline

try:
    from benchmarks.harness.watching import Trips, watched
except ModuleNotFoundError:  # a checkout whose benchmarks have no rooms yet
    from benchmarks.watching import Trips, watched

TASK_BATCHES = 64  # as in any long job
PROCESS, THREAD = 2, 6  # kinds of clocks, see `_clock_s`

Batch = tuple[Tensor, Tensor, Tensor]  # features, ids, targets; a record is a row of each


class Plan(NamedTuple):
    """What a process is to do: blocks of so many steps, and one more before the clock."""

    model: str  # of MODELS
    pace: str
    blocks: int
    steps: int


class Model(nn.Module, ABC):
    """What is learned, by paceline and by the plain loop; `linear` and `rows` may be None.

    Attributes:
        batch, ids, width: records of a batch, ids that there are, numbers of a row.
    """

    batch, ids, width = 8, 64, 4

    def __init__(self, rows: nn.Module | None, linear: nn.Module | None) -> None:
        super().__init__()
        self.rows, self.linear = rows, linear

    @abstractmethod
    def loss(self, batch: Batch) -> Tensor:
        """Of a batch."""

    @staticmethod
    def row_rules() -> tuple[Any, Any]:
        """How rows learn: paceline's rule, and torch's optimizer of parameters."""
        return paceline.SGD(lr=0.01), lambda values: torch.optim.SGD(values, lr=0.01)

    @staticmethod
    def optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Of the network."""
        return torch.optim.SGD(parameters, lr=0.01)

    @classmethod
    def draw(cls, records: int) -> Batch:
        """So many records; every row is there after the first few."""
        ids = torch.cat([torch.arange(cls.ids), torch.randint(0, cls.ids, (records,))])
        return torch.randn(records, cls.width), ids[:records], torch.randn(records)


class Small(Model):
    """Next to nothing to compute: one linear layer, rows that are added up, or both."""

    def loss(self, batch: Batch) -> Tensor:
        """Of a batch."""
        features, ids, targets = batch
        if self.rows is not None:
            features = features + self.rows(ids)
        found = features.sum(1) if self.linear is None else self.linear(features).squeeze(1)
        return mse_loss(found, targets)


@final
class Dense(Small):
    """4 -> 1."""

    def __init__(self, _: nn.Module) -> None:
        super().__init__(None, nn.Linear(self.width, 1))


@final
class Rows(Small):
    """Four numbers of a row."""

    def __init__(self, rows: nn.Module) -> None:
        super().__init__(rows, None)


@final
class Both(Small):
    """Rows and a layer."""

    def __init__(self, rows: nn.Module) -> None:
        super().__init__(rows, nn.Linear(self.width, 1))


@final
class Clicks(Model):
    """26 id fields of 16 numbers, network 416-128-64-1 under Adam, batches of 512."""

    batch, ids, width = 512, 100_000, 16
    fields = 26

    def __init__(self, rows: nn.Module) -> None:
        wide = self.fields * self.width
        layers = (nn.Linear(wide, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        super().__init__(rows, nn.Sequential(*layers, nn.Linear(64, 1)))

    def loss(self, batch: Batch) -> Tensor:
        """Of a batch."""
        assert self.rows is not None
        assert self.linear is not None
        logits = self.linear(self.rows(batch[1]).flatten(1)).squeeze(1)
        return binary_cross_entropy_with_logits(logits, batch[2])

    @staticmethod
    def row_rules() -> tuple[Any, Any]:
        """Adagrad."""
        return paceline.Adagrad(lr=0.01), lambda some: torch.optim.Adagrad(some, lr=0.01)

    @staticmethod
    def optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(parameters, lr=1e-3, fused=True)

    @classmethod
    def draw(cls, records: int) -> Batch:
        """Ids of which few are drawn often."""
        often = torch.rand(records, cls.fields).pow(6) * cls.ids
        return (
            torch.zeros(records, 0),
            often.long(),
            torch.randint(0, 2, (records,)).float(),
        )


@final
class Digits(Model):
    """784-1024-1024-10 under Adam, batches of 8."""

    width = 784

    def __init__(self, _: nn.Module) -> None:
        layers = (nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU())
        super().__init__(None, nn.Sequential(*layers, nn.Linear(1024, 10)))

    def loss(self, batch: Batch) -> Tensor:
        """Of a batch."""
        assert self.linear is not None
        return cross_entropy(self.linear(batch[0]), batch[2])

    @staticmethod
    def optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(parameters, lr=1e-3, fused=True)

    @classmethod
    def draw(cls, records: int) -> Batch:
        """Noise and ten classes."""
        features, ids = torch.randn(records, cls.width), torch.zeros(records, 0)
        return features, ids, torch.randint(0, 10, (records,))


MODELS: dict[str, type[Any]] = {
    "dense": Dense,
    "rows": Rows,
    "both": Both,
    "clicks": Clicks,
    "digits": Digits,
}


def made(kind: str, rows: nn.Module) -> Model:
    """A model; whatever was drawn for its rows, two loops begin alike."""
    torch.manual_seed(0)
    model: Model = MODELS[kind](rows)
    return model


def learn(model: Model, optimizer: Any, batch: Batch) -> float:  # noqa: ANN401  (ours, torch's)
    """One step of the loop that both share; returns the seconds of `step` alone."""
    model.loss(batch).backward()
    began_s = time.perf_counter()
    optimizer.step()
    took_s = time.perf_counter() - began_s
    optimizer.zero_grad()
    return took_s


@final
class Optimizers:
    """Of a plain loop: that of the network and that of its rows, as one."""

    def __init__(self, *some: list[torch.optim.Optimizer]) -> None:
        self._all = [one for each in some for one in each]

    def step(self) -> None:
        """Of all."""
        for one in self._all:
            one.step()

    def zero_grad(self) -> None:
        """Of all."""
        for one in self._all:
            one.zero_grad()


class Gauge(NamedTuple):
    """The processes of this one's job; none for an embedded one, which has only threads."""

    pids: dict[str, int]  # {role: process}

    def cpu_s(self) -> dict[str, float]:
        """{role: processor time so far}.

        Of an embedded job, all that no thread of a server or coordinator did is the
        trainer's: there, a question is mostly answered by the thread that asks it.
        """
        if self.pids:
            return {role: _clock_s(pid, PROCESS) for role, pid in self.pids.items()}
        spent = {"coordinator": 0.0, "server": 0.0}
        for thread in threading.enumerate():
            role = thread.name.partition("-")[0]
            if role in spent and thread.native_id is not None:
                with contextlib.suppress(OSError):  # it has just ended
                    spent[role] += _clock_s(thread.native_id, THREAD)
        return {**spent, "trainer": time.process_time() - sum(spent.values())}

    def calls(self) -> dict[str, int]:
        """How often all of them have slept, and have read or written a file, so far."""
        found = collections.Counter[str]()
        for pid in self.pids.values() or [os.getpid()]:
            process = psutil.Process(pid)
            io = process.io_counters()
            found["reads and writes"] += io.read_count + io.write_count
            for task in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError):  # a thread that has ended
                    lines = (task / "status").read_text().splitlines()
                    found["sleeps"] += int(lines[-2].split()[1])  # voluntary switches
        return dict(found)


def job_gauge() -> Gauge:
    """Of the job that the environment names, or of this process."""
    siblings = psutil.Process().parent().children() if "PACELINE_ROLE" in os.environ else []
    return Gauge({one.name().partition("-")[0]: one.pid for one in siblings})


def _clock_s(number: int, kind: int) -> float:
    """A process's or a thread's own clock, numbered as by clock_getcpuclockid(3)."""
    return time.clock_gettime((~number << 3) | kind)


def run(
    session: paceline.Session, plan: Plan, gauge: Gauge, trips: Trips | None = None
) -> dict[str, Any]:
    """Train in blocks that take turns with the plain loop's; returns what was found."""
    kind = MODELS[plan.model]
    rule, row_optimizer = kind.row_rules()
    model = made(
        plan.model,
        paceline.Embedding("rows", kind.width, optimizer=rule, init=paceline.Zeros()),
    )
    zeros = torch.zeros(kind.ids, kind.width)
    plain = made(plan.model, nn.Embedding.from_pretrained(zeros, freeze=False, sparse=True))
    network = kind.optimizer(model.linear.parameters()) if model.linear else None
    shared = session.share(model, network, pace=plan.pace)
    own = Optimizers(
        [kind.optimizer(plain.linear.parameters())] if plain.linear else [],
        [row_optimizer(plain.rows.parameters())] if plain.rows else [],
    )
    task, last = TASK_BATCHES * kind.batch, (plan.blocks + 1) * plan.steps
    took_us: dict[str, list[float]] = {"us": [], "plain us": [], "step us": []}
    block, step_s, plain_cpu_s = list[Batch](), 0.0, 0.0
    found: dict[str, Any] = {"paceline": paceline.__file__}
    torch.manual_seed(1)
    records = kind.draw(last * kind.batch)
    data = session.batches(records, kind.batch, shuffle=False, task_size=task)
    began_s = time.perf_counter()
    for number, batch in enumerate(data, start=1):
        block.append(batch)
        step_s += learn(model, shared, batch)
        if number % plan.steps:
            continue
        turned_s, turned_cpu_s = time.perf_counter(), time.thread_time()
        for again in block:
            learn(plain, own, again)
        plain_cpu_s += time.thread_time() - turned_cpu_s
        seconds = (turned_s - began_s, time.perf_counter() - turned_s, step_s)
        if number == plan.steps:  # it is warm
            began_calls, asked = gauge.calls(), trips.take() if trips else []
            began_cpu_s, plain_cpu_s = gauge.cpu_s(), 0.0
        else:
            for name, took_s in zip(took_us, seconds, strict=True):
                took_us[name].append(1e6 * took_s / plan.steps)
        if number == last:
            cpu_s, calls = gauge.cpu_s(), gauge.calls()
            asked = trips.take() if trips else []
            cpu_s["trainer"] -= plain_cpu_s
            with torch.no_grad():
                losses = [[float(one.loss(b)) for b in block] for one in (model, plain)]
            found["losses"] = [sum(values) / plan.steps for values in losses]
        block, step_s, began_s = [], 0.0, time.perf_counter()
    steps = plan.blocks * plan.steps
    # A server of an embedded job is seen as well: elsewhere it is another process.
    kinds = collections.Counter(t.kind for t in asked if t.kind != "ServerReport")
    found["cpu us"] = {r: 1e6 * (s - began_cpu_s[r]) / steps for r, s in cpu_s.items()}
    found["calls"] = {name: (n - began_calls[name]) / steps for name, n in calls.items()}
    found["messages"] = {kind: 2 * n / steps for kind, n in kinds.items()}  # and replies
    return {**found, **took_us}


def main() -> None:
    """Be a trainer, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plan", required=True, help="a Plan as JSON")
    parser.add_argument("--counted", action="store_true", help="messages; not to be timed")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    with (
        watched() if flags.counted else contextlib.nullcontext() as trips,
        torch.sparse.check_sparse_tensor_invariants(enable=False),  # torch's default, said
    ):
        plan = Plan(**json.loads(flags.plan))
        found = run(paceline.connect(), plan, job_gauge(), trips)
    flags.out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
