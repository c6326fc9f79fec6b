"""Pushes a second that one slot takes: queued, merged, rows beside each other (hogwild).

``python -m benchmarks.isolation [--trainers 4] [--batch 512] [--repeats 5]``: threads that
push to one slot of a server's `Slots`, each waiting for its acknowledgement before it
pushes again; no transport. Once a dense block of 262,144 elements under Adam, once a batch
of rows of 16, of a million, under Adagrad. The isolations in turn, repeated. Before
anything is timed, queued and merged pushes of SGD must have added up. One intra-op thread.
"""

import argparse
import sys
import threading
import time

import numpy as np
import torch

from benchmarks import record
from paceline.config import Adagrad, Async, Uniform
from paceline.messages.shared import (
    Block,
    OptimizerSpec,
    ParameterSpec,
    PartPlan,
    PartSpec,
    TableSpec,
)
from paceline.server.requests.contents import PushContents, RowGradients
from paceline.server.slots.slots import Slots

ELEMENTS, ROWS, DIM = 1 << 18, 1_000_000, 16
BLOCK, ROW_SLOT = 0, 1
PACES = {
    "queued": Async(),
    "merge=8": Async(merge=8),
    "hogwild": Async(isolation="hogwild"),
}
PUSHES = {"dense": 60, "rows": 300}  # of one thread, in one repeat


def make(pace: Async, kind: str, lr: float) -> Slots:
    """A server's numbers: one dense block and one slot of rows, all made."""
    spec = PartSpec(
        0,
        (ParameterSpec(("w",), (ELEMENTS,), "float32"),),
        OptimizerSpec(kind, ({"lr": lr},)),
        (TableSpec("user", DIM, Adagrad(), Uniform(0.1)),),
        pace,
    )
    blocks = (Block(BLOCK, 0, 0, ELEMENTS),)
    slots = Slots("server-0", 0, _raise)
    slots.create(PartPlan(spec, blocks, ROW_SLOT, 1, dict.fromkeys((0, 1), "server-0")))
    slots._shard.table(ROW_SLOT, "user").gather(np.arange(ROWS), create=True)
    return slots


def _raise(error: Exception) -> None:
    raise error


def _contents(what: str, batch: int, seed: int) -> list[PushContents]:
    random = np.random.default_rng(seed)
    hyper = ({"lr": 1e-3},)
    if what == "dense":
        return [PushContents(hyper, {BLOCK: torch.full((ELEMENTS,), 1.0)}, {}, {})]
    found = []
    for _ in range(64):
        ids = np.unique(random.integers(0, ROWS, batch))
        gradients = np.ones((len(ids), DIM), np.float32)
        rows = {ROW_SLOT: [RowGradients("user", ids, gradients)]}
        found.append(PushContents(hyper, {}, {}, rows))
    return found


def push_all(slots: Slots, what: str, trainers: int, pushes: int, batch: int) -> float:
    """Seconds that so many trainers take to have so many pushes each acknowledged."""
    order = threading.Lock()  # as a server's: guards the order of turns
    slot = BLOCK if what == "dense" else ROW_SLOT

    def push_on(trainer: int) -> None:
        contents = _contents(what, batch, trainer)
        ready.wait()
        for number in range(pushes):
            acknowledged = threading.Event()
            with order:
                one = contents[number % len(contents)]
                actions = slots.applying(0, one, [slot])
                run = slots.line_up(actions, acknowledged.set, trainer)
            run()
            acknowledged.wait()

    ready = threading.Barrier(trainers + 1)
    threads = [threading.Thread(target=push_on, args=(n + 1,)) for n in range(trainers)]
    for thread in threads:
        thread.start()
    ready.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin


def check(trainers: int) -> None:
    """Serial and merged pushes of SGD add up to the same whole number."""
    for name in ("queued", "merge=8"):
        slots = make(PACES[name], "SGD", 1e-3)
        push_all(slots, "dense", trainers, 10, 0)
        values = slots._shard.dense(BLOCK).values
        assert torch.allclose(values, torch.full_like(values, -1e-2 * trainers)), name


def main(trainers: int, batch: int, repeats: int) -> None:
    """Print pushes a second by isolation."""
    torch.set_num_threads(1)
    check(trainers)
    rates: dict[tuple[str, str], list[float]] = {}
    merged = {}
    for what, pushes in PUSHES.items():
        servers = {
            name: make(pace, "Adam", 1e-3)
            for name, pace in PACES.items()
            if (what, pace.isolation) != ("dense", "hogwild")
        }
        for repeat in range(repeats + 1):
            for name, slots in servers.items():
                seconds = push_all(slots, what, trainers, pushes, batch)
                if repeat:  # the first warms up
                    rates.setdefault((what, name), []).append(trainers * pushes / seconds)
        merged[what] = servers["merge=8"].num_merged()
    spreads = {key: record.spread(values) for key, values in rates.items()}
    lines = [("pushes a second", "dense", "x", "rows", "x")]
    for name in PACES:
        cells = []
        for what in PUSHES:
            if (what, name) not in spreads:
                cells += ["", ""]
                continue
            found, queued = spreads[what, name], spreads[what, "queued"]
            cells += [
                f"{found.median:,.0f} ({found.least:,.0f} to {found.most:,.0f})",
                f"{found.median / queued.median:.2f}",
            ]
        lines.append((name, *cells))
    print(record.table(lines))
    path = record.write(
        "isolation",
        {
            **record.circumstances(sys.argv),
            "rates": {f"{what} {name}": one for (what, name), one in spreads.items()},
            "merged": merged,
        },
    )
    record.say(f"merged {merged}; {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    main(options.trainers, options.batch, options.repeats)
