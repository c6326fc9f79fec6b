"""Rows of a table that servers reduce: those of one round, or nothing."""

from typing import Any

import numpy as np
import pytest

from paceline.config import Sync
from paceline.messages.data import PulledRows
from paceline.trainer.peers.through_servers import Served
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob


@pytest.fixture
def job() -> FakeJob:
    return FakeJob(servers=2, pace=Sync(reduce="sum"))


def answered(session: Session, rounds: dict[str, int]) -> Any:
    """What a call comes to in round 5 where servers have answered with these rounds."""
    table: Any = session.table("t", (20, 3), "float64", pace=Sync(reduce="sum"))
    values = np.arange(60.0).reshape(20, 3)
    served = Served(table._rows, values)
    for server, question in served.questions().items():
        payload = served.attach(server, question)
        assert payload is not None
        assert payload.landing is not None
        reply = PulledRows(version=1, round=rounds[server])
        places = payload.landing(reply, payload.reply_sizes)
        for ids, place in zip(payload.buffers, places, strict=True):
            np.asarray(place)[:] = values[np.asarray(ids)]
        assert payload.landed is not None
        payload.landed(reply)
    found = served.result(5)
    return None if found is None else np.array_equal(found, values)


def test_rows_of_the_round_come_in_the_order_of_the_table(session: Session) -> None:
    assert answered(session, {"server-0": 5, "server-1": 5})


def test_rows_of_a_later_round_are_no_result(session: Session) -> None:
    assert answered(session, {"server-0": 5, "server-1": 6}) is None
