"""Calls that cannot be made are refused, with what is expected instead."""

import numpy as np
import pytest

from paceline.config import Combine
from paceline.errors import UsageError
from paceline.trainer.peers.calls import check_call
from paceline.trainer.peers.collective import Operation


def rows(number: int | None, dtype: str = "float32") -> Combine:
    return Combine(rule="add", dtype=dtype, shape=(2,), num_rows=number)


DENSE = rows(3)
WHOLE = np.zeros((3, 2), np.float32)
SERVED = Operation("t", "allreduce", "add", "push+pull")


@pytest.mark.parametrize(
    ("operation", "combine", "match"),
    [
        (SERVED, rows(None), "this one is keyed"),
        (SERVED, rows(4), r"one array of float32 \(4, 2\)"),
        (SERVED, rows(3, "float64"), r"one array of float64 \(3, 2\)"),
        (SERVED._replace(rule="max"), DENSE, "make the table with combine='max'"),
    ],
)
def test_servers_reduce_rows_of_the_table_by_its_rule(
    operation: Operation, combine: Combine, match: str
) -> None:
    check_call(SERVED, [WHOLE], DENSE, has_pushed=False)
    with pytest.raises(UsageError, match=match):
        check_call(operation, [WHOLE], combine, has_pushed=False)
