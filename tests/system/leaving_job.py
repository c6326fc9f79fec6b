"""A counting script whose trainers leave their loop in the middle, each in its way.

Every record adds 1 to a parameter. Ways are `trainer=way`, or one way for all trainers;
with `/once` behind it only the first process that comes there leaves so.
"""

import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

import paceline

RECORDS, BATCH, LEAVE_AT = 576, 8, 1


def give_up(way: str) -> None:
    """Leave, unless it is by `break` or `return`."""
    if way in {"raise", "raise again", "close and raise", "caught"}:
        raise ValueError("a bug")
    word, _, code = way.partition(" ")
    if word == "exit":
        sys.exit(int(code) if code.isdigit() else code)
    if word == "os._exit":
        os._exit(int(code))
    if word == "SIGINT":
        os.kill(os.getpid(), signal.SIGINT)


def train(batches: Iterable[Any], model: torch.nn.Module, optimizer: Any, way: str) -> int:
    """Step through batches; leave the loop as is wanted, and say how many there were."""
    number = 0
    for number, (x,) in enumerate(batches):
        (-model(x).sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if number != LEAVE_AT or way == "none":
            continue
        if way.startswith("break"):
            break
        if way == "return":
            return number
        give_up(way)
    return number


def main() -> None:
    """Train, leave, write down what the model has come to."""
    out, *ways = sys.argv[1:]
    session = paceline.connect()
    notes = Path(out, f"notes-{session.trainer}").open("w")  # noqa: SIM115  (never closed)
    notes.write("begun")
    chosen = dict(way.split("=") if "=" in way else (session.trainer, way) for way in ways)
    way, _, times = chosen.get(session.trainer, "none").partition("/")
    been = Path(out, f"left-{session.trainer}")
    way = "none" if times and been.exists() else way
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    if way == "stop":
        session.stop("enough")
    elif way != "none":
        been.touch()
    data = (torch.ones(RECORDS, 1),)
    try:
        train(session.batches(data, BATCH, task_size=2 * BATCH), model, optimizer, way)
    except ValueError:
        if way == "raise again":
            session.log(failed=1.0)
        if way == "close and raise":
            session.close()
        if way != "caught":
            raise
    if way in {"break and go on", "caught"}:
        print(session.records)  # noqa: T201  (a call, as scripts make them)
    if way == "none" and session.once("told"):
        Path(out, "value").write_text(str(round(model.weight.item())))


if __name__ == "__main__":
    main()
