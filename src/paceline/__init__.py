"""Elastic training for PyTorch: many trainers, one model, one setting for the pace.

Many trainers share one model through parameter servers; a coordinator hands out the data
and survives whoever dies. The rooms, in the order of the data's way::

    data          1  where examples come from: sources, tasks, batches
    coordinator   2  who does what next, who is alive
    trainer       3  the user's side: session, shared optimizer, embedding, table
    pace          4  how tightly the trainers march together
    server        5  the door before a shard: marks, windows, rounds, locks
    params        6  what a parameter is and how it changes: numbers only
    store         7  what must survive: journal, blobs, checkpoints
    transport        the corridor: addresses, frames, connections
    launch           the front door: `connect`, embedded and local jobs
    watch            the window: progress, status, the picture of a run
    forecast         how fast a job would be on other machines
    cli              one file per command
    examples         users' code, outside the package: only public names

The names of roles, trainers, sessions and data load lazily: importing paceline starts
nothing and imports neither torch, numba nor numpy, so coordinator, launcher and `paceline
status` stay light.
"""

from typing import TYPE_CHECKING

from paceline.config import (
    FTRL,
    SGD,
    SSP,
    Adagrad,
    Adam,
    AdamW,
    AllReduce,
    Async,
    AsyncDiLoCo,
    Auto,
    Constant,
    DiLoCo,
    Guards,
    LocalSGD,
    Normal,
    RowWiseAdagrad,
    Sync,
    Uniform,
    Zeros,
)
from paceline.errors import (
    IncompleteWarning,
    JobFailed,
    LockLost,
    LockTimeout,
    PacelineError,
    UsageError,
)
from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline import data
    from paceline.cli.called import run
    from paceline.launch.connect import connect
    from paceline.pace.strategy import Strategy
    from paceline.params.rows import combine_rule
    from paceline.trainer.rows import Embedding
    from paceline.trainer.session import Session
    from paceline.trainer.tables import Table

__version__ = "0.1.0"

__all__ = [
    "FTRL",
    "SGD",
    "SSP",
    "Adagrad",
    "Adam",
    "AdamW",
    "AllReduce",
    "Async",
    "AsyncDiLoCo",
    "Auto",
    "Constant",
    "DiLoCo",
    "Embedding",
    "Guards",
    "IncompleteWarning",
    "JobFailed",
    "LocalSGD",
    "LockLost",
    "LockTimeout",
    "Normal",
    "PacelineError",
    "RowWiseAdagrad",
    "Session",
    "Strategy",
    "Sync",
    "Table",
    "Uniform",
    "UsageError",
    "Zeros",
    "__version__",
    "combine_rule",
    "connect",
    "data",
    "run",
]

_LAZY = {  # {public name: the module that defines it}
    "connect": "paceline.launch.connect",
    "Embedding": "paceline.trainer.rows.embedding",
    "Session": "paceline.trainer.session",
    "Strategy": "paceline.pace.strategy",
    "Table": "paceline.trainer.tables.table",
    "combine_rule": "paceline.params.rows.combining",
    "data": "paceline.data",
    "run": "paceline.cli.called.call",
}


# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)


def __dir__() -> list[str]:
    """All public names, loaded or not."""
    return sorted(__all__)
