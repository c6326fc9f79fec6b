"""A rule of the user's own that raises: all who ask are told, and no cut is taken."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from paceline.config import Async, Combine, Zeros
from paceline.messages.data import Push, Pushed
from paceline.messages.locking import RowSlots
from paceline.messages.server import CutReport, Snapshot
from paceline.messages.shared import PartPlan, PartSpec, Refusal, TableSpec
from paceline.params.rows import combining
from tests.server.conftest import Server, window

MakeServer = Callable[..., Server]
SAYS = "server-0 cannot go on: table 't', id 1: combine rule 'fussy' raised KeyError: 7"


@pytest.fixture
def fussy() -> Iterator[None]:
    """A rule that does not take the number 7."""

    @combining.combine_rule("fussy")
    def combine(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        if (values == 7).any():
            raise KeyError(7)
        return rows + values

    yield
    del combining._own["fussy"]


def plan() -> PartPlan:
    own = Combine(rule="fussy", dtype="int64", shape=(2,), num_rows=4)
    spec = PartSpec(0, (), None, (TableSpec("t", 2, own, Zeros()),), Async())
    return PartPlan(spec, (), 0, 1, {0: "server-0"})


def push(server: Server, number: int, values: list[int], trainer: int = 11) -> object:
    rows = (RowSlots("t", (0,), (2,)),)
    message = Push(
        incarnation=trainer,
        timeline=0,
        part=0,
        number=number,
        window=window(number - 1, task=trainer),
        records=1,
        rows=rows,
    )
    arrays = [np.array([0, 1]), np.repeat(values, 2)]
    return server.ask(message, arrays, trainer)


@pytest.mark.usefixtures("fussy")
def test_who_pushes_and_all_who_ask_are_told_rule_table_and_id(
    make_server: MakeServer,
) -> None:
    server = make_server(plan=plan())
    assert isinstance(push(server, 1, [1, 2]), Pushed)
    for trainer, number, values in [(11, 2, [3, 7]), (12, 1, [1, 1])]:
        refused = push(server, number, values, trainer)
        assert isinstance(refused, Refusal)
        assert (refused.kind, refused.text) == ("invalid", SAYS)
    report = server.coordinator.order(until=lambda report: report.broken is not None)
    assert report.broken == SAYS
    assert not server.service.wait_over(0.0)


@pytest.mark.usefixtures("fussy")
def test_no_cut_has_the_mark_of_a_push_whose_rule_raised(make_server: MakeServer) -> None:
    server = make_server(plan=plan())
    push(server, 1, [1, 7])
    order = Snapshot(cut=3, folder="cut-3", rounds={})
    report = server.coordinator.order(order, until=lambda report: bool(report.answers))
    [answer] = report.answers
    assert isinstance(answer, CutReport)
    assert answer.error == SAYS
