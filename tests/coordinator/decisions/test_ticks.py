"""A tick that comes late, or again, does what it did, and nothing else."""

import msgspec

from paceline.config import Async
from paceline.messages.shared import Done, Lease
from paceline.messages.trainer import BeginStage, StageOver
from tests.coordinator.conftest import STAGE, Job

TRAIN = msgspec.structs.replace(STAGE, epochs=1)  # 4 tasks of 5 batches of 2 records
EVALUATION = msgspec.structs.replace(TRAIN, stage=1, shuffle=False, kind="evaluate")


def test_a_repeated_tick_of_a_stage_that_is_over_brings_no_task_of_the_next() -> None:
    job = Job(pace=Async())
    job.open("trainer-0", "trainer-1", stage=TRAIN)
    while isinstance(lease := job.lease("trainer-0"), Lease):
        last = lease
        job.finish("trainer-0", lease)
    assert isinstance(lease, StageOver)
    begin = BeginStage(**job.who("trainer-1"), spec=EVALUATION)
    assert job.get("trainer-1", begin) == Done()
    job.restart()  # it knows no more who is in which stage
    job.serve()
    repeated = job.tick("trainer-0", last, 0, 4, next_lease=True)
    assert repeated.lease is None, "it would train on records that are to be evaluated"
    assert isinstance(job.lease("trainer-1", stage=1), Lease)
