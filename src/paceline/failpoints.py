"""Named places where a fault can be made to happen, for tests and game days.

A service calls `failpoint("server.after_ack")` at a place where dying matters. Nothing
happens unless the environment arms it::

    PACELINE_FAILPOINTS="trainer.before_tick=kill@5x3;coordinator.before_reply=kill@20x3"
    PACELINE_FAILPOINTS_DIR=<a folder of the job>

``kill@5x3``: at every 5th hit in a process kill the process (SIGKILL), three times in the
whole job. Actions: ``kill``, ``stop`` (SIGSTOP), ``exit`` (status 1), ``error`` (raises
`InjectedFault`). Each firing leaves a file ``<name>.<n>`` in the folder, made with
``O_EXCL`` before the fault happens: the proof that it was injected, and the job-wide
budget. Without a folder the budget is that of the process.
"""

import os
import signal
from pathlib import Path
from typing import NamedTuple

from paceline.errors import UsageError

ARM_VARIABLE = "PACELINE_FAILPOINTS"
FOLDER_VARIABLE = "PACELINE_FAILPOINTS_DIR"


class InjectedFault(Exception):  # noqa: N818  (a fault that was asked for, not an error)
    """Raised by a failpoint armed with ``error``."""


class _Armed(NamedTuple):
    action: str
    every: int
    budget: int


def parse(text: str) -> dict[str, _Armed]:
    """Read ``name=action@every x budget`` items separated by ``;``.

    Raises:
        UsageError: an item does not have that form.
    """
    found: dict[str, _Armed] = {}
    for item in filter(None, (part.strip() for part in text.split(";"))):
        try:
            name, rule = item.split("=", 1)
            action, numbers = rule.split("@", 1)
            every, _, budget = numbers.partition("x")
            found[name] = _Armed(action, int(every), int(budget or 1))
        except ValueError:
            raise UsageError(
                f"{ARM_VARIABLE}: expected name=action@everyxbudget, got {item!r}"
            ) from None
        if action not in {"kill", "stop", "exit", "error"}:
            raise UsageError(f"{ARM_VARIABLE}: {action!r} is not kill, stop, exit or error")
    return found


# {place: what happens there}; where a place is passed often, look before calling.
armed: dict[str, _Armed] = parse(os.environ.get(ARM_VARIABLE, ""))
_hits: dict[str, int] = {}
_fired: dict[str, int] = {}


def arm(text: str) -> None:
    """Arm failpoints of this process anew (tests); an empty text disarms all."""
    armed.clear()
    armed.update(parse(text))
    _hits.clear()
    _fired.clear()


def failpoint(name: str) -> None:
    """Let the fault armed for this place happen, if it is due."""
    rule = armed.get(name)
    if rule is None:
        return
    _hits[name] = _hits.get(name, 0) + 1
    if _hits[name] % rule.every == 0 and _claim(name, rule.budget):
        _happen(name, rule.action)


def _claim(name: str, budget: int) -> bool:
    """Take one of the job's firings of this place; false when none is left."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        _fired[name] = _fired.get(name, 0) + 1
        return _fired[name] <= budget
    for number in range(budget):
        try:
            (Path(folder) / f"{name}.{number}").open("x").close()
        except FileExistsError:
            continue
        return True
    return False


def _happen(name: str, action: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif action == "exit":
        os._exit(1)
    else:
        raise InjectedFault(f"failpoint {name}")
