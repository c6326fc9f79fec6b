"""Evaluations and predictions that the job refuses, and the script catches."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.errors import UsageError
from tests.cluster.together import shared

Run = Callable[..., list[Any]]
DATA = torch.arange(24.0).reshape(24, 1)


def evaluate(session: paceline.Session, data: torch.Tensor) -> float:
    torchmetrics = pytest.importorskip("torchmetrics")
    metric = torchmetrics.SumMetric()
    return float(session.evaluate(metric, lambda batch: batch, data, batch_size=2))


def predict(session: paceline.Session, data: torch.Tensor) -> float:
    seen: dict[int, float] = {}

    def write(first: int, predictions: Any) -> None:
        seen[first] = float(predictions.sum())

    session.predict(lambda batch: batch, data, write, batch_size=2)
    return 0.0


@pytest.mark.parametrize("call", [evaluate, predict])
def test_a_call_that_is_refused_and_caught_holds_up_nobody(run: Run, call: Any) -> None:
    def script(session: paceline.Session) -> tuple[str, float, float]:
        shared(session, nn.Linear(1, 1))
        mine, others = DATA[2:], DATA[:22]
        if session.trainer == "trainer-1":
            mine, others = others, mine
        refusal = ""
        try:
            value = call(session, mine)
        except UsageError as error:  # who comes second
            refusal = str(error)
            value = call(session, others)
        return refusal, value, call(session, DATA)

    found = run(script, trainers=2)
    first, second = sorted(refusal for refusal, _, _ in found)
    assert not first
    assert "All trainers of a job bring the same data" in second
    assert found[0][1:] == found[1][1:]
