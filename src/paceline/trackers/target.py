"""Where a job is tracked, as it is typed: ``tensorboard:FOLDER``, ``mlflow``, ``wandb:P``.

Pure, but for the import of the tool that is named.
"""

from pathlib import Path
from typing import NamedTuple

from paceline.errors import UsageError
from paceline.trackers.tracker import RunTracker

TO_HELP = "tensorboard[:FOLDER], wandb[:PROJECT], trackio[:PROJECT] or mlflow[:URI]."
TOOLS = ("tensorboard", "wandb", "trackio", "mlflow")
LOGS = "tensorboard"  # the folder, unless another is named


class Target(NamedTuple):
    """A tool, and where in it; empty: where the tool has it."""

    tool: str
    where: str

    def __str__(self) -> str:
        """As it is typed."""
        return f"{self.tool}:{self.where}" if self.where else self.tool


def parse_target(text: str) -> Target:
    """Read what ``--to`` says.

    Raises:
        UsageError: there is no such tool.
    """
    tool, colon, where = text.partition(":")
    if tool not in TOOLS or (colon and not where):
        raise UsageError(f"expected {TO_HELP[:-1]}, got {text!r}")
    return Target(tool, where)


def open_tracker(target: Target) -> RunTracker:
    """What writes there; nothing is written yet.

    Raises:
        UsageError: the tool is not installed.
    """
    if target.tool == "tensorboard":
        from paceline.trackers.tensorboard_files import TensorBoard  # noqa: PLC0415

        return TensorBoard(Path(target.where or LOGS))
    if target.tool == "mlflow":
        from paceline.trackers.mlflow_store import MlflowStore  # noqa: PLC0415

        return MlflowStore(target.where or None)
    from paceline.trackers.weights_and_biases import PROJECT, WandbRun  # noqa: PLC0415

    return WandbRun(target.tool, target.where or PROJECT)
