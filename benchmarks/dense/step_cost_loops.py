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
import cProfile
import json
import os
import pstats
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch
from torch.utils.data import DataLoader, TensorDataset

import paceline
from benchmarks.harness.watching import Trips, watched

# Beside this file, wherever the rest of `benchmarks` is from: an older one has others.
sys.path.append(str(Path(__file__).parent))
from step_cost_models import MODELS, Batch, Model, Optimizers, pair_of  # isort: skip

TIMES = ("us", "plain us", "loader us", "step us")  # the third is in the second
TASK_BATCHES = 64  # as in any long job
PROCESS, THREAD = 2, 6  # kinds of clocks, see `_clock_s`
SIZE = re.compile(r"(\w+):\s*(\d+) kB")


class Plan(NamedTuple):
    """What a process is to do: blocks of so many steps, and one more before the clock."""

    model: str  # of MODELS
    pace: str
    blocks: int
    steps: int


def learn(model: Model, optimizer: Any, batch: Batch) -> float:  # noqa: ANN401  (ours, torch's)
    """One step of the loop that both share; returns the seconds of `step` alone."""
    model.loss(batch).backward()
    began_s = time.perf_counter()
    optimizer.step()
    took_s = time.perf_counter() - began_s
    optimizer.zero_grad()
    return took_s


def learn_plainly(
    model: Model, optimizer: Optimizers, loader: Iterator[Batch], steps: int
) -> tuple[float, float, float]:
    """So many steps of the plain loop: seconds, those of the loader, processor time."""
    began_s, began_cpu_s, loader_s = time.perf_counter(), time.thread_time(), 0.0
    for _ in range(steps):
        loads_s = time.perf_counter()
        batch = next(loader)
        loader_s += time.perf_counter() - loads_s
        learn(model, optimizer, batch)
    cpu_s = time.thread_time() - began_cpu_s
    return time.perf_counter() - began_s, loader_s, cpu_s


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

    def forget_peak(self) -> None:
        """The most memory is counted from here on."""
        for pid in self._all().values():
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    def memory_mib(self) -> dict[str, list[float]]:
        """{role: memory now, and at most}; all of an embedded job is the trainer's.

        What processes share is divided among them (PSS). The kernel knows the most of what
        a process sees (RSS) alone: what that was above RSS now is added.
        """
        found = {}
        for role, pid in self._all().items():
            files = [Path(f"/proc/{pid}/{name}") for name in ("smaps_rollup", "status")]
            kib = dict(re.findall(SIZE, "".join(file.read_text() for file in files)))
            now_kib, rss_kib, most_kib = (int(kib[n]) for n in ("Pss", "VmRSS", "VmHWM"))
            found[role] = [now_kib / 1024, (now_kib + most_kib - rss_kib) / 1024]
        return found

    def _all(self) -> dict[str, int]:
        return self.pids or {"trainer": os.getpid()}

    def calls(self) -> dict[str, int]:
        """How often all of them have slept, and have read or written a file, so far."""
        found = collections.Counter[str]()
        for pid in self._all().values():
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


def own_us(profile: cProfile.Profile, steps: int) -> dict[str, float]:
    """{room of paceline, or package: processor time of its own functions in a step}.

    What they call of C is theirs. A profiled call is two to three times as dear.
    """
    root, found = Path(paceline.__file__).parent, collections.Counter[str]()
    for (file, _, _), (_, _, own_s, _, callers) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        by = {file: own_s}
        if file == "~":  # of C
            by = {caller: one[2] for (caller, _, _), one in callers.items()}
        for name, took_s in by.items():
            path = Path(name)
            room = "torch" if "torch" in path.parts else "others"
            if path.is_relative_to(root):
                room = "/".join(path.relative_to(root).with_suffix("").parts[:2])
            found[room] += 1e6 * took_s / steps
    return dict(found.most_common())


def run(
    session: paceline.Session, plan: Plan, gauge: Gauge, trips: Trips | None = None
) -> dict[str, Any]:
    """Train in blocks that take turns with the plain loop's; returns what was found."""
    kind = MODELS[plan.model]
    model, plain = pair_of(plan.model)
    task, last = TASK_BATCHES * kind.batch, (plan.blocks + 1) * plan.steps
    took_us: dict[str, list[float]] = {n: [] for n in TIMES}
    block, step_s = list[Batch](), 0.0
    found: dict[str, Any] = {"paceline": paceline.__file__}
    torch.manual_seed(1)
    records = kind.draw(last * kind.batch)
    gauge.forget_peak()
    network = kind.optimizer(model.linear.parameters()) if model.linear else None
    shared, own = session.share(model, network, pace=plan.pace), Optimizers(plain)
    data = session.batches(records, kind.batch, shuffle=False, task_size=task)
    loader = iter(DataLoader(TensorDataset(*records), kind.batch))  # the same batches
    began_s, plain_cpu_s = time.perf_counter(), 0.0
    profile = cProfile.Profile() if trips else None
    for number, batch in enumerate(data, start=1):
        block.append(batch)
        step_s += learn(model, shared, batch)
        if number % plan.steps:
            continue
        turned_s = time.perf_counter()
        if profile is not None:
            profile.disable()
        plain_s, loader_s, cpu_s = learn_plainly(plain, own, loader, len(block))
        plain_cpu_s += cpu_s
        seconds = (turned_s - began_s, plain_s, loader_s, step_s)
        if number == plan.steps:  # it is warm
            began_calls, asked = gauge.calls(), trips.take() if trips else []
            began_cpu_s, plain_cpu_s = gauge.cpu_s(), 0.0
        else:
            for name, took_s in zip(took_us, seconds, strict=True):
                took_us[name].append(1e6 * took_s / plan.steps)
        if number == last:
            spent_s, calls = gauge.cpu_s(), gauge.calls()
            found["memory MiB"] = gauge.memory_mib()
            asked = trips.take() if trips else []
            spent_s["trainer"] -= plain_cpu_s
            with torch.no_grad():
                losses = [[float(one.loss(b)) for b in block] for one in (model, plain)]
            found["losses"] = [sum(values) / plan.steps for values in losses]
        if profile is not None and number < last:
            profile.enable()
        block, step_s, began_s = [], 0.0, time.perf_counter()
    steps = plan.blocks * plan.steps
    # A server of an embedded job is seen as well: elsewhere it is another process.
    kinds = collections.Counter(t.kind for t in asked if t.kind != "ServerReport")
    found["profile"] = own_us(profile, steps) if profile else {}
    found["plain cpu us"] = 1e6 * plain_cpu_s / steps
    found["cpu us"] = {r: 1e6 * (s - began_cpu_s[r]) / steps for r, s in spent_s.items()}
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
