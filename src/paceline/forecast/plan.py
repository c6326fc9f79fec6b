"""What a forecast is asked for: the job, the machines, and models of what takes time.

Pure.
"""

import msgspec

from paceline.config import JobConfig, Pace, Sync
from paceline.data.split import default_task_size
from paceline.errors import UsageError
from paceline.forecast.models import Compute, Deaths, Lognormal, Network, Pauses
from paceline.messages.shared import OptimizerSpec, ParameterSpec, PartSpec, StageSpec
from paceline.pace.changing import begun
from paceline.pace.policy import takes_turns

TASKS_PER_TRAINER = 2  # at least, where only steps are asked for

# Calibrated on a machine with two cores (docs/LOG.md): what a request costs beside the
# numbers, and how fast one core adds and applies them.
COORDINATOR_S = 60e-6
SERVER_S = 60e-6
APPLIED_BYTES_PER_S = 5e9
ADDED_BYTES_PER_S = 10e9


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One job on given machines.

    ``steps`` are batches of each trainer, if ``records`` is 0: a sample of a longer job.
    With ``spread`` trainers differ for ever: sigma of a lognormal factor with median 1.
    ``apply_s`` (of one update to all parameters) and ``add_s`` (of one more push to a
    round) are a server's; None: by the bytes. ``parameter_bytes`` are dense values as they
    travel: pulled, and pushed as gradients.
    """

    trainers: int = 1  # as many as there are; all begin together
    servers: int = 1  # with equal shares of the parameters
    pace: Pace = Sync()  # of the one part that is shared
    steps: int = 100
    records: int = 0  # of the data set; 0: as many as ``steps`` need
    epochs: int = 1  # runs over the data set
    batch_size: int = 1  # records of a batch
    compute: Compute = Lognormal(0.1, 0.3)  # seconds of computing a batch
    spread: float = 0.0
    pauses: Pauses | None = None
    network: Network = Network()  # between any two machines
    parameter_bytes: int = 0
    row_bytes: int = 0  # values of rows of a batch, pulled and pushed, over all servers
    apply_s: float | None = None
    add_s: float | None = None
    server_s: float = SERVER_S  # what a request costs a server beside its numbers
    coordinator_s: float = COORDINATOR_S  # what a request costs the coordinator
    trainer_s: float = 0.0  # what a step costs a trainer beside computing
    deaths: Deaths | None = None  # of each trainer and each server; None: nobody dies
    cut_every_s: float = 60.0  # between two cuts; 0: none but the first
    write_s: float = 1.0  # until a share of a cut is written, while pushes go on
    seed: int = 0  # of all draws

    def __post_init__(self) -> None:
        for name in ("trainers", "servers", "steps", "epochs", "batch_size"):
            _require(name.replace("_", "-"), getattr(self, name) >= 1, 1, self, name)
        for name in ("records", "parameter_bytes", "row_bytes", "spread", "write_s"):
            _require(name.replace("_", "-"), getattr(self, name) >= 0, 0, self, name)
        for name in ("server_s", "coordinator_s", "trainer_s", "cut_every_s"):
            _require(name.removesuffix("_s"), getattr(self, name) >= 0, 0, self, name)
        for name in ("apply_s", "add_s"):
            given = getattr(self, name)
            _require(name.removesuffix("_s"), given is None or given >= 0, 0, self, name)
        if takes_turns(self.pace):
            raise UsageError(
                f"pace: {self.pace} shares a model as several parts by turns, and a "
                f"forecast has one part: forecast it without fragments and overlap"
            )

    def apply_share_s(self) -> float:
        """One server applies one update to its share."""
        bytes_s = (self.parameter_bytes + self.row_bytes) / APPLIED_BYTES_PER_S
        return (bytes_s if self.apply_s is None else self.apply_s) / self.servers

    def add_share_s(self) -> float:
        """One server adds one more push to its share of a round."""
        bytes_s = (self.parameter_bytes + self.row_bytes) / ADDED_BYTES_PER_S
        return (bytes_s if self.add_s is None else self.add_s) / self.servers

    def stage(self) -> StageSpec:
        """The data, and how it is cut.

        By the product's own rule where ``records`` is given. Where only steps are, tasks
        come out even, and are as large as in a long job if there are steps enough.
        """
        if self.records:
            records, epochs = self.records, self.epochs
            task_size = default_task_size(records, self.batch_size)
        else:
            records, epochs = self.trainers * self.steps * self.batch_size, self.epochs
            most = max(1, min(64, self.steps // TASKS_PER_TRAINER))
            task = max(n for n in range(1, most + 1) if self.steps % n == 0)
            task_size = task * self.batch_size
        return StageSpec(
            0, records, self.batch_size, task_size, epochs, True, self.seed, "forecast"
        )

    def part(self) -> PartSpec:
        """What is shared; its numbers are not made."""
        parameter = ParameterSpec(
            ("weight",), (max(1, self.parameter_bytes // 4),), "float32"
        )
        pace, auto = begun(self.pace)
        optimizer = OptimizerSpec("SGD", ({"lr": 0.1},))
        return PartSpec(0, (parameter,), optimizer, (), pace, auto=auto)

    def config(self) -> JobConfig:
        """The job as its coordinator has it: one server stands for all, which are alike.

        Nobody is lost by silence: deaths are reported.
        """
        return JobConfig(
            run="forecast",
            trainers=self.trainers,
            pace=self.pace,
            timeout_s=1e9,
            cut_every_s=self.cut_every_s,
            max_task_failures=10**6,
        )


def _require(option: str, condition: bool, least: int, plan: Plan, name: str) -> None:
    if not condition:
        raise UsageError(f"{option}: expected {least} or more, got {getattr(plan, name)}")
