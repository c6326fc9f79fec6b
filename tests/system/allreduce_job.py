"""A counting job without servers' help: every batch's counts travel between trainers.

What is kept of the rounds is tracked: the counts, and a hash over the bits of all results,
round after round. So at the end all trainers have the same of both, or somebody was told
something else at some time.
"""

import argparse
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import paceline

IDS = 300


class Seen:
    """The counts so far, and the hash of all results in their order."""

    def __init__(self) -> None:
        self.counts = np.zeros(IDS, np.int64)
        self.chain = ""

    def add(self, counts: Any, roots: Any) -> None:
        """A round has come to this."""
        self.counts = self.counts + counts.astype(np.int64)
        link = self.chain.encode() + counts.tobytes() + roots.tobytes()
        self.chain = hashlib.sha256(link).hexdigest()

    def state_dict(self) -> dict[str, Any]:
        """As `Session.track` wants it."""
        return {"counts": self.counts, "chain": self.chain}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The same."""
        self.counts, self.chain = np.array(state["counts"]), state["chain"]


def main() -> None:
    """Count in all trainers, check in all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=3200)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--task-size", type=int, default=160)
    parser.add_argument("--sleep-ms", type=float, default=0.0, help="per batch")
    parser.add_argument("--how", default="auto")
    parser.add_argument("--out", type=Path, required=True, help="file for the verdict")
    flags = parser.parse_args()

    data = torch.from_numpy(np.random.default_rng(0).integers(0, IDS, flags.records))
    session = paceline.connect()
    rounds = paceline.Sync(reduce="sum")
    table = session.table("counts", (2, IDS), "float64", pace=rounds)
    seen = Seen()
    session.track(seen=seen)
    for ids in session.batches(data, 16, epochs=flags.epochs, task_size=flags.task_size):
        time.sleep(flags.sleep_ms / 1000)
        counts = np.bincount(ids.numpy(), minlength=IDS)
        roots = np.sqrt(counts + float(ids.sum()) / 7)
        values = np.stack([counts.astype(np.float64), roots])
        seen.add(*table.allreduce(values, how=flags.how))

    histogram = np.bincount(data.numpy(), minlength=IDS) * flags.epochs
    wrong = int((seen.counts != histogram).sum())
    own = {"exact": not wrong, "wrong": wrong, "chain": seen.chain}
    flags.out.with_name(f"{session.trainer}.json").write_text(json.dumps(own))
    if session.once("check"):
        flags.out.write_text(json.dumps(own))


if __name__ == "__main__":
    main()
