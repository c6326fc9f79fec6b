"""A counting script whose trainers leave their loop in the middle, each in its way.

Every record adds 1 to a parameter. Ways are `trainer=way`, or one way for all trainers;
with `/once` behind it only the first process that comes there leaves so, and with ` at exit
log` or ` at exit close` what is registered with `atexit` makes that call of the session.
"""

import atexit
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch

import paceline

RECORDS, BATCH, LEAVE_AT = 576, 8, 1
WAIT_S = 60.0


class Unreadable(torch.utils.data.Dataset[Any]):
    """The data, of which one record cannot be read, or none can."""

    def __init__(self, way: str) -> None:
        self._are_all_bad = way == "unreadable all"

    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> Any:
        if self._are_all_bad or index == RECORDS // 2:
            raise ValueError(f"record {index} is bad")
        return (torch.ones(1),)


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


def train(
    batches: Iterable[Any],
    model: torch.nn.Module,
    optimizer: Any,
    way: str,
    begun: Callable[[], None],
) -> int:
    """Step through batches; leave the loop as is wanted, and say how many there were."""
    number = 0
    for number, (x,) in enumerate(batches):
        if number == 0:
            begun()
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


def wait_begun(leaving: list[Path]) -> None:
    """Who stays goes on when all who leave have a task, at whose end they do so."""
    deadline_s = time.monotonic() + WAIT_S
    while not all(one.exists() for one in leaving):
        assert time.monotonic() < deadline_s, "not all who are to leave have begun"
        time.sleep(0.01)


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
    way, _, last_call = way.partition(" at exit ")
    calls = {"log": lambda: session.log(failed=1.0), "close": session.close}
    atexit.register(calls.get(last_call, lambda: None))
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    leaving = [Path(out, f"left-{one}") for one in chosen if chosen[one] != "none"]
    begun = partial(wait_begun, leaving) if way == "none" else been.touch
    if way == "stop":
        session.stop("enough")
        been.touch()
    data: Any = (torch.ones(RECORDS, 1),)
    if way.startswith("unreadable"):
        way, data = "none", Unreadable(way)
    try:
        batches = session.batches(data, BATCH, task_size=2 * BATCH)
        train(batches, model, optimizer, way, begun)
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
