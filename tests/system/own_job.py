"""A counting script as users write it, started by `python`: each record adds 1.

It says what it stands at, so that a test can interrupt it there: on its own standard
output, which is nobody else's.
"""

import ctypes
import signal
import sys
import time
from pathlib import Path

import torch

import paceline

RECORDS, BATCH = 576, 8


def wait(path: Path, *, is_native: bool) -> None:
    """Until a file is there; or in native code, which no signal reaches."""
    if is_native:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        ctypes.CDLL(None).sleep(600)
    while not path.exists():
        time.sleep(0.01)


def main() -> None:
    """Train; at batch 5 do what the first argument says."""
    way = sys.argv[1]
    ones = (torch.ones(RECORDS, 1),)
    session = paceline.connect()
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    for number, (batch,) in enumerate(session.batches(ones, BATCH)):
        (-model(batch).sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if number == 5 and way == "raise":
            raise ValueError("a bug")
        if number == 5 and way in {"wait", "native"}:
            print("at batch 5", flush=True)  # noqa: T201  (the script's own output)
            wait(Path(sys.argv[2]), is_native=way == "native")
    print(f"value {model.weight.item():g}")  # noqa: T201


if __name__ == "__main__":
    main()
