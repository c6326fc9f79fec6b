"""The CTR job against other parameter servers: TensorFlow's and Paddle's.

::

    python -m benchmarks ctr_peers [--times 5] [--rows adam] [--peers tensorflow,paddle]

The job of `benchmarks ctr`: 26 id fields of 1,000,000 Zipf ids, 16 dim, network
416-128-64-1 under Adam, batches of 512, asynchronous, one trainer and one server
(TensorFlow has a coordinator too), one computing thread each. All see the same batches in
the same order and begin with the same network. TensorFlow begins with our rows as well;
Paddle's server draws its own, of the same distribution. Every row exists before the clock
starts.

Held-out losses are compared first: beyond 1 % a ratio does not count. Left to itself,
Paddle's trainer runs ahead of its own pushes, and learns less in the same steps; the other
Paddle waits for the pushes of each step. Runs are interleaved, each in processes of its
own.

Exit status: 0; 1 if the losses of all runs of a library differ from ours. A goal that is
missed is told, and is no failure.
"""

import argparse
import contextlib
import json
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from benchmarks.ctr import compare as ctr
from benchmarks.ctr.handed import Handed, Job, write_handed
from benchmarks.ctr.loops import DIM, HALF_WIDTH, NETWORK_LR, ROWS_LR, Model, Plan
from benchmarks.harness.environments import one_thread, versions, wait_python
from benchmarks.harness.figures import (
    Figure,
    Ratio,
    compared,
    figure_table,
    kept,
    ratio_table,
)
from benchmarks.harness.goals import wanted
from benchmarks.harness.processes import fork_server, wait_modules
from benchmarks.harness.record import circumstances, say, spread, write
from paceline.config import JobConfig, Uniform
from paceline.launch.processes.forkserver import ForkServer
from paceline.params.rows.initial import fill_initial, init_key

LIMIT_S = 900.0  # of one run
OURS = "paceline, 1 trainer + 1 server"


class Peer(NamedTuple):
    """Another library: `benchmarks.ctr.with_<library>` in the environment of that name.

    Args:
        library: its name.
        who: for people.
        at_once: TensorFlow: steps of one scheduled call. Paddle: steps after which the
            trainer waits for its pushes; 0: never, as Paddle likes.
    """

    library: str
    who: str
    at_once: int


PEERS = {
    "tensorflow": Peer("tensorflow", "TensorFlow 2.21, ten steps a call", 10),
    "tensorflow-1": Peer("tensorflow", "TensorFlow 2.21, one step a call", 1),
    "paddle": Peer("paddle", "Paddle 2.6.2, as it likes", 0),
    "paddle-1": Peer("paddle", "Paddle 2.6.2, pushes waited for", 1),
}
ROLES = {  # the first is waited for; each listens at a port
    "tensorflow": ("client", "trainer", "server"),
    "paddle": ("trainer", "server"),
}
CHANGES = {  # of the environment
    "tensorflow": {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"},
    "paddle": {"FLAGS_enable_pir_api": "0"},
}


class Run(NamedTuple):
    """One run of one candidate."""

    rate: float  # records per second
    loss: float  # held out


def hand_over(plan: Plan, records: Mapping[str, np.ndarray], folder: Path) -> Job:
    """Write what the peers begin with; returns their job."""
    stop = (plan.warm + plan.timed) * plan.batch
    ids, labels = records["ids"], records["labels"]
    fields = ids.shape[1]
    rows = np.empty((plan.ids, DIM), np.float32)
    key = init_key(JobConfig(run="seed").seed, "rows")  # of the job and table of ours
    fill_initial(Uniform(HALF_WIDTH), key, np.arange(plan.ids), rows)
    layers = [
        layer
        for layer in Model(nn.Identity(), fields).network
        if isinstance(layer, nn.Linear)
    ]
    with torch.no_grad():
        network = [
            (np.ascontiguousarray(layer.weight.numpy().T), layer.bias.numpy())
            for layer in layers
        ]
    write_handed(
        folder,
        Handed(
            ids[:stop].reshape(-1, plan.batch, fields),
            labels[:stop].reshape(-1, plan.batch),
            ids[stop:],
            labels[stop:],
            network,
            rows,
        ),
    )
    return Job(
        plan.ids,
        fields,
        DIM,
        plan.batch,
        plan.warm,
        plan.timed,
        plan.rows,
        ROWS_LR[plan.rows],
        NETWORK_LR,
        HALF_WIDTH,
    )


def free_ports(count: int) -> list[int]:
    """Ports of this host that nobody had a moment ago."""
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in socks]


def run_peer(peer: Peer, job: Job, handed: Path, folder: Path, python: Path) -> Run:
    """One run of a peer, in processes of its own."""
    roles, out = ROLES[peer.library], folder / "result.json"
    ports = ",".join(map(str, free_ports(len(roles))))
    shared = ("--folder", str(handed), "--out", str(out), "--ports", ports)
    told = json.dumps(job._replace(at_once=peer.at_once)._asdict())
    commands = {role: (role, "--job", told, *shared) for role in roles}
    environment = {**one_thread(), **CHANGES[peer.library]}
    module = f"benchmarks.ctr.with_{peer.library}"
    wait_modules(python, module, commands, environment, folder, LIMIT_S)
    found = json.loads(out.read_text(encoding="utf-8"))
    return Run(job.timed * job.batch / found["seconds"], found["loss"])


def measure(
    times: int, plan: Plan, names: Sequence[str], folder: Path, forks: ForkServer
) -> dict[str, list[Run]]:
    """Interleaved runs of ours and the peers: {who: runs}."""
    pythons = {name: wait_python(PEERS[name].library) for name in names}
    data, handed = folder / "data.npz", folder / "handed"
    handed.mkdir()
    trained = (plan.warm + plan.timed) * plan.batch
    records = ctr.draw_records(trained + ctr.HELD_OUT, 0, plan.ids)
    np.savez(data, ids=records["ids"], labels=records["labels"])
    job = hand_over(plan, records, handed)
    runs: dict[str, list[Run]] = {}
    for again in range(times):
        for name in ("ours", *names):
            place = folder / f"{name}-{again}"
            place.mkdir()
            if name == "ours":
                who, found = OURS, ctr.run_once(ctr.OURS, plan, data, place, forks)
                run = Run(found.rate, found.loss)
            else:
                who = PEERS[name].who
                run = run_peer(PEERS[name], job, handed, place, pythons[name])
            runs.setdefault(who, []).append(run)
            say(f"{again + 1}/{times}  {who}: {run.rate:,.0f} records/s, {run.loss:.4f}")
    return runs


def equal_losses(runs: Mapping[str, Sequence[Run]]) -> tuple[dict[str, bool], str]:
    """Whose held-out loss is that of ours: {who: equal}, and what they are."""
    losses = {
        who: spread([run.loss for run in found]).median for who, found in runs.items()
    }
    equal = {
        who: abs(losses[OURS] / loss - 1) <= ctr.LOSS_WITHIN for who, loss in losses.items()
    }
    told = ", ".join(
        f"{who}: {loss:.4f}{'' if equal[who] else ' (NOT EQUAL, its ratio does not count)'}"
        for who, loss in losses.items()
    )
    return equal, f"held-out loss: {told}"


def ratios_of(figures: Sequence[Figure], equal: Mapping[str, bool]) -> list[Ratio]:
    """Ours against every peer; without a goal where the losses differ."""
    libraries = {peer.who: peer.library for peer in PEERS.values()}
    ratios = []
    for other in figures[1:]:
        goal = wanted(libraries[other.who]) if equal[other.who] else None
        ratio = compared(figures[0], other, goal)
        against = other.who if equal[other.who] else f"{other.who} (not equal)"
        ratios.append(ratio._replace(against=against))
    return ratios


def figures_of(what: str, runs: Mapping[str, Sequence[Run]]) -> list[Figure]:
    """Records per second of every candidate."""
    return [
        Figure(
            what,
            who,
            "ours" if who == OURS else "peer",
            "records/s",
            tuple(run.rate for run in found),
            is_more_better=True,
        )
        for who, found in runs.items()
    ]


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks ctr_peers", description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="runs of each candidate")
    parser.add_argument("--peers", default=",".join(PEERS), help="which of them")
    parser.add_argument("--rows", choices=["adam", "adagrad"], default="adam")
    parser.add_argument("--warm", type=int, default=40, help="steps before the clock")
    parser.add_argument("--steps", type=int, default=200, help="steps that are timed")
    parser.add_argument("--ids", type=int, default=ctr.IDS)
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)  # before the load is our own
    names = [name for name in flags.peers.split(",") if name]
    plan = Plan(
        flags.ids,
        ctr.BATCH,
        flags.warm,
        flags.steps,
        flags.rows,
        task_batches=ctr.TASK_BATCHES,
    )
    with (
        tempfile.TemporaryDirectory(prefix="paceline-bench-") as name,
        fork_server(Path(name) / "forks", 1) as forks,
    ):
        runs = measure(flags.times, plan, names, Path(name), forks)
    equal, told = equal_losses(runs)
    figures = figures_of(f"CTR, rows under {flags.rows}", runs)
    ratios = ratios_of(figures, equal)
    libraries = {PEERS[name].library for name in names}
    is_equal = all(
        any(equal[PEERS[name].who] for name in names if PEERS[name].library == library)
        for library in libraries
    )
    print(f"{told}\n\n{figure_table(figures)}\n\n{ratio_table(ratios)}")
    record = {
        **where,
        "plan": plan._asdict(),
        "peers": {library: versions(library) for library in sorted(libraries)},
        **kept(figures, ratios, told, is_equal=is_equal),
    }
    print(f"\n{write('ctr_peers', record)}")
    return 0 if is_equal else 1
