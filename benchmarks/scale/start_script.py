"""A script of a few steps for `start`: plain, or paceline's; it imports nothing else.

It tells how long its first batch took from the command on, and what its processes hold.
"""

import argparse
import importlib
import json
import math
import os
import re
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LAYERS, STEPS = 6, 4
SIZE = re.compile(r"^(Pss|VmRSS|VmHWM):\s+(\d+) kB$", re.MULTILINE)
OPTIMIZERS: dict[str, tuple[Any, dict[str, float]]] = {
    "sgd": (torch.optim.SGD, {"lr": 1e-4, "momentum": 0.9}),
    "adam": (torch.optim.Adam, {"lr": 1e-5}),
}


def processes() -> dict[str, int]:
    """{role: process} of the job that the environment names, or of this script alone."""
    if "PACELINE_ROLE" not in os.environ:
        return {"script": os.getpid()}
    import psutil  # noqa: PLC0415  (what is measured imports as little as it can)

    siblings = psutil.Process().parent().children()
    return {one.name().partition("-")[0]: one.pid for one in siblings}


def memory_mb(pid: int) -> tuple[float, float]:
    """Memory of a process now, and at most.

    What processes share is divided among them (PSS). The kernel knows the most of what a
    process sees (RSS): what that was above RSS now is added.
    """
    files = [Path(f"/proc/{pid}/{name}") for name in ("smaps_rollup", "status")]
    kib = dict(SIZE.findall("".join(file.read_text() for file in files)))
    now, rss, most = (int(kib[name]) * 1024 / 1e6 for name in ("Pss", "VmRSS", "VmHWM"))
    return now, now + most - rss


def train(flags: argparse.Namespace) -> dict[str, Any]:
    """Train to the end; what was found."""
    torch.manual_seed(0)
    session, held = None, dict[str, float]()
    if not flags.is_plain:
        import paceline  # noqa: PLC0415  (the plain script does without)

        session = paceline.connect()
    if flags.weigh:  # what is imported is there before anything is held
        importlib.import_module("torch._dynamo")
        held = {role: memory_mb(pid)[0] for role, pid in processes().items()}
        for pid in processes().values():
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # the most begins anew
    width = math.isqrt(flags.values // LAYERS)
    model = nn.Sequential(*[nn.Linear(width, width) for _ in range(LAYERS)])
    kind, options = OPTIMIZERS[flags.optimizer]
    optimizer = kind(model.parameters(), **options)
    records = (torch.randn(4 * STEPS, width), torch.randn(4 * STEPS, width))
    data: Any
    if session is None:
        data = DataLoader(TensorDataset(*records), 4, shuffle=True)
    else:
        optimizer, data = session.share(model, optimizer), session.batches(records, 4)
    began: tuple[float, float] | None = None
    for features, targets in data:
        began = began or (time.monotonic() - flags.began, time.process_time())
        nn.functional.mse_loss(model(features), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    values = sum(one.numel() for one in model.parameters())
    weighed = {role: memory_mb(pid) for role, pid in processes().items() if held}
    above = {role: [mb - held[role] for mb in found] for role, found in weighed.items()}
    return {"began": began, "values_mb": 4 * values / 1e6, "memory_mb": above}


def main() -> None:
    """Train, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--began", type=float, default=0.0)
    parser.add_argument("--values", type=int, required=True)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd")
    parser.add_argument("--plain", dest="is_plain", action="store_true")
    parser.add_argument("--embedded", dest="is_plain", action="store_false")
    parser.add_argument("--weigh", action="store_true")
    flags = parser.parse_args()
    (flags.out / "result.json").write_text(json.dumps(train(flags)), encoding="utf-8")


if __name__ == "__main__":
    main()
