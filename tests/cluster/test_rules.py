"""A rule of the user's own that raises: the script is told, and the job fails."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import paceline
from paceline.errors import Refused, RuleFailed
from paceline.params.rows import combining

Run = Callable[..., list[Any]]


@pytest.fixture(autouse=True)
def fussy() -> Iterator[None]:
    """A rule that keeps the greater, and takes no row of 7."""

    @combining.combine_rule("fussy")
    def combine(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        if (values == 7).any():
            raise KeyError(7)
        return np.maximum(rows, values)

    yield
    del combining._own["fussy"]


@pytest.mark.parametrize("pace", ["async", "sync:reduce=sum"])
def test_the_job_fails_and_says_rule_table_and_id(run: Any, pace: str) -> None:
    says = "id 1: combine rule 'fussy' raised KeyError: 7"

    def script(session: paceline.Session) -> None:
        table = session.table("t", (4,), "int64", combine="fussy", pace=pace)
        for number in session.batches(torch.arange(12), 1, shuffle=False):
            table.push([0, 1], [1, int(number)])

    with pytest.raises(Refused, match="table 't', " + says):
        run(script, trainers=1)
    [job] = run.jobs
    assert job.close()["status"] == "failed"


def test_a_rule_that_raises_where_values_are_pushed_says_so_there(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("t", (4,), "int64", combine="fussy")
        with pytest.raises(RuleFailed, match="table 't', id 3: combine rule 'fussy'"):
            table.push([3, 2, 3], [1, 1, 7])
        table.push([3], [5])
        assert table.pull().tolist() == [0, 0, 0, 5]

    run(script, trainers=1)
