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
"""

import contextlib
import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from benchmarks.ctr import compare as ctr
from benchmarks.ctr.handed import Handed, Job, write_handed
from benchmarks.ctr.loops import DIM, HALF_WIDTH, NETWORK_LR, ROWS_LR, Model, Plan
from benchmarks.harness.bench import TIMES, Found, Run, bench, opt, result
from benchmarks.harness.environments import one_thread, versions, wait_python
from benchmarks.harness.figures import Figure, Measure, Ratio, compared, measured, medians
from benchmarks.harness.processes import wait_modules
from paceline.config import JobConfig, Uniform
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


def run_peer(peer: Peer, job: Job, handed: Path, folder: Path, python: Path) -> ctr.Trained:
    """One run of a peer, in processes of its own."""
    roles, out = ROLES[peer.library], folder / "result.json"
    ports = ",".join(map(str, free_ports(len(roles))))
    shared = ("--folder", str(handed), "--out", str(out), "--ports", ports)
    told = json.dumps(job._replace(at_once=peer.at_once)._asdict())
    commands = {role: (role, "--job", told, *shared) for role in roles}
    environment = {**one_thread(), **CHANGES[peer.library]}
    module = f"benchmarks.ctr.with_{peer.library}"
    wait_modules(python, module, commands, environment, folder, LIMIT_S)
    found = result(folder)
    return ctr.Trained(job.timed * job.batch / found["seconds"], found["loss"])


def equal_losses(runs: Mapping[str, Sequence[ctr.Trained]]) -> tuple[dict[str, bool], str]:
    """Whose held-out loss is that of ours: {who: equal}, and what they are."""
    losses = medians(runs, lambda run: run.loss)
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
        goal = libraries[other.who] if equal[other.who] else ""
        ratio = compared(figures[0], other, goal)
        against = other.who if equal[other.who] else f"{other.who} (not equal)"
        ratios.append(ratio._replace(against=against))
    return ratios


def figures_of(what: str, runs: Mapping[str, Sequence[ctr.Trained]]) -> list[Figure]:
    """Records per second of every candidate."""
    rate = Measure(what, "records/s", lambda run: run.rate, is_more_better=True)
    return measured(runs, rate, kind=lambda who: "ours" if who == OURS else "peer")


@bench(
    "ctr_peers",
    TIMES,
    opt("peers", tuple(PEERS), "which", tuple(PEERS)),
    ctr.ROWS,
    *ctr.STEPS,
)
def main(run: Run) -> Found:
    """Measure ours beside the peers."""
    names, plan = run.flags.peers, ctr.plan_of(run.flags, run.flags.rows)
    peers = {PEERS[name].who: PEERS[name] for name in names}
    pythons = {who: wait_python(peer.library) for who, peer in peers.items()}
    data, handed = run.folder / "data.npz", run.place()
    job = hand_over(plan, ctr.write_data(plan, data), handed)

    def once(who: str, place: Path) -> ctr.Trained:
        if who == OURS:
            return ctr.run_once(ctr.OURS, plan, data, place, run)
        return run_peer(peers[who], job, handed, place, pythons[who])

    runs = run.interleaved(
        (OURS, *peers),
        once,
        lambda who, one: f"{who}: {one.rate:,.0f} records/s, {one.loss:.4f}",
    )
    equal, told = equal_losses(runs)
    figures = figures_of(f"CTR, rows under {run.flags.rows}", runs)
    libraries = {peer.library for peer in peers.values()}
    is_equal = all(
        any(equal[who] for who, peer in peers.items() if peer.library == library)
        for library in libraries
    )
    known = {library: versions(library) for library in sorted(libraries)}
    more = {"plan": plan._asdict(), "peers": known}
    return Found(figures, ratios_of(figures, equal), told, is_equal, more=more)
