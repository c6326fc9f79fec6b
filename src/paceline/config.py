"""Plain, frozen descriptions that users write and roles exchange.

Everything here is checked when it is made and means the same on every machine: paces
(`paceline.pace_specs`), what rows are (`paceline.row_specs`) and the `JobConfig` that a
launcher hands to all roles. Nothing here has behaviour: `pace/` interprets paces, `params/`
interprets optimizers.
"""

import msgspec

from paceline.errors import UsageError
from paceline.pace_specs.auto import Auto as Auto
from paceline.pace_specs.checks import is_whole, require
from paceline.pace_specs.guards import Guards as Guards
from paceline.pace_specs.parsing import parse_pace as parse_pace
from paceline.pace_specs.presets import SSP as SSP
from paceline.pace_specs.presets import AllReduce as AllReduce
from paceline.pace_specs.presets import Async as Async
from paceline.pace_specs.presets import AsyncDiLoCo as AsyncDiLoCo
from paceline.pace_specs.presets import DiLoCo as DiLoCo
from paceline.pace_specs.presets import LocalSGD as LocalSGD
from paceline.pace_specs.presets import Pace as Pace
from paceline.pace_specs.presets import Sync as Sync
from paceline.row_specs import FTRL as FTRL
from paceline.row_specs import SGD as SGD
from paceline.row_specs import Adagrad as Adagrad
from paceline.row_specs import Adam as Adam
from paceline.row_specs import AdamW as AdamW
from paceline.row_specs import Constant as Constant
from paceline.row_specs import FirstAdam as FirstAdam
from paceline.row_specs import Highest as Highest
from paceline.row_specs import Lowest as Lowest
from paceline.row_specs import Normal as Normal
from paceline.row_specs import RowInit as RowInit
from paceline.row_specs import RowOptimizer as RowOptimizer
from paceline.row_specs import RowWiseAdagrad as RowWiseAdagrad
from paceline.row_specs import Uniform as Uniform
from paceline.row_specs import Zeros as Zeros
from paceline.table_specs import Combine as Combine

_WHOLE = (
    "trainers",
    "most_trainers",
    "ranks_per_trainer",
    "servers",
    "seed",
    "keep_cuts",
    "max_task_failures",
)


class JobConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a launcher decides for a whole job; written to ``job.json`` in the job folder.

    Args:
        run: id of the run; a connection of another run is refused.
        job: id of the job, kept when it is resumed; empty: it begins with this run, and
            has its id.
        trainers: how many trainers the first lease waits for: the fewest of the job.
        most_trainers: how many there may be at most; 0: as many as ``trainers``, until
            somebody scales the job.
        ranks_per_trainer: processes of one trainer, which act as one.
        servers: number of parameter servers.
        pace: pace of every part that `Session.share` gives none.
        seed: seed of row initialisation.
        timeout_s: silence after which a role counts as dead.
        first_batch_s: what the first batch of a trainer's process may take; afterwards as
            measured.
        begins_anew: of a resumed run: train from the start if the checkpoints that the
            journal knows are gone.
        cut_every_s: seconds between two periodic cuts; 0 switches them off.
        cut_every_steps: steps between two periodic cuts; 0 switches them off.
        keep_cuts: whole cuts that are kept.
        checkpoints: where cuts lie, an absolute path or an fsspec URL; empty: in the job
            folder.
        max_task_failures: failures or time-outs after which a task is given up for the
            epoch.
        plugins: the user's own modules that servers and trainers import: names, or
            absolute paths of ``.py`` files.
        disk_wait_s: how long work waits for a disk that takes nothing; None: for ever.
    """

    run: str
    job: str = ""
    trainers: int = 1
    most_trainers: int = 0
    ranks_per_trainer: int = 1
    servers: int = 1
    pace: Pace = Sync()
    seed: int = 0
    timeout_s: float = 10.0
    first_batch_s: float = 1800.0
    cut_every_s: float = 60.0
    cut_every_steps: int = 0
    keep_cuts: int = 2
    begins_anew: bool = False
    checkpoints: str = ""
    max_task_failures: int = 3
    plugins: tuple[str, ...] = ()
    disk_wait_s: float | None = None

    def __post_init__(self) -> None:
        if not self.job:
            msgspec.structs.force_setattr(self, "job", self.run)
        for name in _WHOLE:
            value = getattr(self, name)
            require(is_whole(value), f"{name} must be a whole number, got {value!r}")
        for name, value in (
            ("trainers", self.trainers),
            ("ranks-per-trainer", self.ranks_per_trainer),
            ("servers", self.servers),
            ("keep_cuts", self.keep_cuts),
            ("max_task_failures", self.max_task_failures),
        ):
            require(value >= 1, f"{name} must be >= 1, got {value}")
        require(
            self.most_trainers == 0 or self.most_trainers >= self.trainers,
            f"trainers: expected the fewest, then the most, got "
            f"{self.trainers}:{self.most_trainers}",
        )
        require(abs(self.seed) < 2**63, f"seed must be within 64 bits, got {self.seed}")
        require(self.timeout_s > 0, f"timeout must be > 0 s, got {self.timeout_s}")
        require(
            self.first_batch_s > 0, f"first-batch must be > 0 s, got {self.first_batch_s}"
        )
        for unit, value in (("s", self.cut_every_s), ("steps", self.cut_every_steps)):
            text = f"between checkpoints must be >= 0 {unit}, got {value}"
            require(value >= 0, text)
        wait_s = self.disk_wait_s
        require(wait_s is None or wait_s >= 0, f"disk-wait must be >= 0 s, got {wait_s}")

    @property
    def max_trainers(self) -> int:
        """How many trainers there are at the beginning: as many as there may be."""
        return self.most_trainers or self.trainers


MOST_TRAINERS = 100_000  # that a running job may be scaled to: more is a slip of the hand


def parse_trainers(text: str) -> tuple[int, int]:
    """Read how many trainers, as written on the command line: ``4``, or ``2:6``.

    Returns:
        (the fewest, the most); the most is 0 where one number was given.

    Raises:
        UsageError: it is neither.
    """
    least, colon, most = text.partition(":")
    if not least.isdecimal() or (colon and not most.isdecimal()):
        raise UsageError(f"trainers: expected a number, or two like 2:6, got {text!r}")
    require(not colon or int(most) >= 1, f"trainers: expected at least 1, got {text!r}")
    return int(least), int(most) if colon else 0
