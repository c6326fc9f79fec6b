import numpy as np
import pytest
import torch

from paceline.errors import UsageError
from paceline.trainer.membership import SEND_EVERY_S, Logbook


def test_the_last_value_of_a_name_wins() -> None:
    logbook = Logbook()
    logbook.add({"loss": 2.0, "auc": 0.5}, 0.0)
    logbook.add({"loss": 1.0}, 0.0)
    assert logbook.take(0.0)[0] == {"loss": 1.0, "auc": 0.5}
    assert logbook.take(0.0)[0] == {}


def test_it_is_time_to_send_at_most_every_so_often() -> None:
    logbook = Logbook()
    assert logbook.add({"loss": 1.0}, 0.0)
    logbook.take(0.0)
    assert not logbook.add({"loss": 2.0}, SEND_EVERY_S / 2)
    assert logbook.add({"loss": 3.0}, SEND_EVERY_S)


def test_it_is_known_how_long_a_number_has_waited() -> None:
    logbook = Logbook()
    logbook.add({"loss": 2.0, "auc": 0.5}, 1.0)
    logbook.add({"loss": 1.0}, 3.0)
    _, waited_s = logbook.take(3.0)
    assert waited_s == {"auc": 2.0}
    assert logbook.take(4.0) == ({}, {})


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), torch.tensor(torch.inf)])
def test_what_is_not_finite_becomes_null(value: object) -> None:
    logbook = Logbook()
    logbook.add({"loss": value}, 0.0)
    assert logbook.take(0.0)[0] == {"loss": None}


@pytest.mark.parametrize("value", [torch.tensor(2.0), np.float32(2), 2, torch.ones(1) * 2])
def test_any_number_may_be_logged(value: object) -> None:
    logbook = Logbook()
    logbook.add({"loss": value}, 0.0)
    assert logbook.take(0.0)[0] == {"loss": 2.0}


@pytest.mark.parametrize("value", ["high", None, torch.ones(3)])
def test_what_is_no_number_is_refused_and_nothing_noted(value: object) -> None:
    logbook = Logbook()
    with pytest.raises(UsageError, match="loss must be a number"):
        logbook.add({"auc": 1.0, "loss": value}, 0.0)
    assert logbook.take(0.0)[0] == {}
