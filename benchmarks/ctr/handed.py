"""What candidates of other libraries are handed for the CTR job, and what they give back.

::

    ids.bin, labels.bin            batch after batch, int64 and float32, nothing between
    held-out.npz                   records that nobody trains on
    network.npz                    w0, b0, w1, b1, w2, b2: a layer is x @ w + b
    rows.npy                       the first values of all rows, float32 (ids, dim)

Only NumPy and the standard library: this runs in the peers' environments.
"""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Float32s = np.ndarray[Any, np.dtype[np.float32]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]


class Job(NamedTuple):
    """The CTR job; rates of learning are those of `ctr_loops`.

    ``at_once`` is what `benchmarks ctr_peers` says of the peer.
    """

    ids: int
    fields: int
    dim: int
    batch: int
    warm: int
    timed: int
    rows: str  # "adam" or "adagrad"
    rows_lr: float
    network_lr: float
    half_width: float
    at_once: int = 0

    @property
    def steps(self) -> int:
        """Warm ones and timed ones."""
        return self.warm + self.timed


class Handed(NamedTuple):
    """What lies in the folder."""

    batch_ids: Int64s  # (steps, batch, fields)
    batch_labels: Float32s  # (steps, batch)
    held_ids: Int64s  # (records, fields)
    held_labels: Float32s  # (records,)
    network: list[tuple[Float32s, Float32s]]  # weights (in, out) and biases (out,)
    rows: Float32s  # (ids, dim)


def write_handed(folder: Path, handed: Handed) -> None:
    """Hand it over."""
    handed.batch_ids.tofile(folder / "ids.bin")
    handed.batch_labels.tofile(folder / "labels.bin")
    np.savez(folder / "held-out.npz", ids=handed.held_ids, labels=handed.held_labels)
    layers = dict[str, Any]()
    for number, (weights, biases) in enumerate(handed.network):
        layers |= {f"w{number}": weights, f"b{number}": biases}
    np.savez(folder / "network.npz", **layers)
    np.save(folder / "rows.npy", handed.rows)


def read_handed(folder: Path, job: Job) -> Handed:
    """Take it."""
    ids = np.fromfile(folder / "ids.bin", np.int64)
    labels = np.fromfile(folder / "labels.bin", np.float32)
    with np.load(folder / "held-out.npz") as held:
        held_ids, held_labels = held["ids"], held["labels"]
    with np.load(folder / "network.npz") as layers:
        network = [(layers[f"w{n}"], layers[f"b{n}"]) for n in range(len(layers) // 2)]
    return Handed(
        ids.reshape(job.steps, job.batch, job.fields),
        labels.reshape(job.steps, job.batch),
        held_ids,
        held_labels,
        network,
        np.load(folder / "rows.npy"),
    )


def logits_of(rows: Float32s, network: list[tuple[Float32s, Float32s]]) -> Float32s:
    """The network's answers (n,) to looked-up rows (n, fields, dim)."""
    values = rows.reshape(len(rows), -1)
    for number, (weights, biases) in enumerate(network):
        values = values @ weights + biases
        if number < len(network) - 1:
            values = np.maximum(values, 0)
    return values[:, 0]


def mean_loss(logits: Float32s, labels: Float32s) -> float:
    """Binary cross-entropy of logits (n,) and labels (n,), 0 or 1."""
    losses = np.maximum(logits, 0) - logits * labels + np.log1p(np.exp(-np.abs(logits)))
    return float(losses.mean(dtype=np.float64))


class Flags(NamedTuple):
    """A candidate's command line."""

    role: str
    job: Job
    folder: Path  # with what is handed over
    out: Path
    ports: list[int]


def read_flags(what: str, roles: tuple[str, ...]) -> Flags:
    """Read it."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("role", choices=roles)
    parser.add_argument("--job", required=True, help="a Job as JSON")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ports", required=True, help="free ones, with commas")
    flags = parser.parse_args()
    ports = [int(port) for port in flags.ports.split(",")]
    job = Job(**json.loads(flags.job))
    return Flags(flags.role, job, flags.folder, flags.out, ports)


def write_result(out: Path, seconds: float, loss: float) -> None:
    """What a candidate gives back: of the timed steps, and the held-out loss."""
    out.write_text(json.dumps({"seconds": seconds, "loss": loss}), encoding="utf-8")
