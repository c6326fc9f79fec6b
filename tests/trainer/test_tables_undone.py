"""What a batch pushes to tables goes with its batch, whenever a trainer learns of it."""

from typing import Any

import numpy as np
import pytest

from paceline.config import Async, Sync
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.peers.link import PeerWires
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA


@pytest.fixture
def job() -> FakeJob:
    return FakeJob(servers=2, pace=Async())


@pytest.mark.parametrize("asks", ["records", "once", "save"])
@pytest.mark.parametrize("pushes_before", [False, True])
def test_a_batch_that_is_undone_while_the_script_asks_counts_once(
    job: FakeJob, session: Session, asks: str, pushes_before: bool
) -> None:
    table = session.table("t", (None,))
    seen: list[int] = []

    def undo() -> None:
        job.leave_timeline()
        _ = {
            "records": lambda: session.records,
            "once": lambda: session.once("here"),
            "save": session.save,
        }[asks]()

    def loop() -> None:
        for batch in session.batches(DATA, 2, shuffle=False):
            seen.append(int(batch[0]))
            if pushes_before:
                table.push([99], [1.0])
            if len(seen) == 2:
                undo()
            table.push([int(batch[0])], [1.0])

    with pytest.warns(StepWarning, match="timeline 0 was left"):
        loop()
    assert seen == [0, 2, 0, 2, 4, 6, 8, 10]
    # The fake servers return to no cut: only the first batch's pushes are there twice.
    ids = np.arange(0, 12, 2)
    assert table.pull(ids).tolist() == [2, 1, 1, 1, 1, 1]
    assert table.pull([99])[0] == 7 * pushes_before


class Door:
    """Nobody comes."""

    address = "fake:door"

    def close(self) -> None:
        pass


def test_a_collective_call_in_a_batch_that_is_undone_is_of_this_trainer_alone(
    job: FakeJob,
) -> None:
    door: Any = Door()
    with job.session(peers=PeerWires(lambda _: door, lambda *_: door)) as session:
        table = session.table("t", (2,), pace=Sync(reduce="sum"))
        batches: Any = session.batches(DATA, 2, shuffle=False)
        next(batches)
        job.leave_timeline()
        assert session.records == 0
        with pytest.warns(StepWarning, match="allreduce dropped: timeline 0 was left"):
            found = table.allreduce(np.arange(3))
        assert found.tolist() == [0, 1, 2]
        batches.close()
