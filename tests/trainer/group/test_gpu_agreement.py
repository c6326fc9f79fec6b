"""The leader decides which parts travel between GPUs, and all do as it says."""

import logging
from typing import Any

import pytest

from paceline.messages.shared import StageSpec
from paceline.trainer.group import wire as wire
from paceline.trainer.group.gpu_agreement import Agreement

SPEC = StageSpec(0, 8, 1, 1, 1, False, 0, "data")


class Trainer:
    """Both ends of a trainer of two: what is told, and what the leader does."""

    def __init__(self) -> None:
        self.told: list[tuple[list[int], object]] = []
        self.went: list[tuple[int, ...]] = []
        self.own: dict[int, str] = {}
        self.all, self.gpus = [1], self
        itself: Any = self
        self.agreement = Agreement(itself, itself, {0: itself, 1: itself})

    def can_connect(self) -> bool:
        return True

    def tell(self, numbers: list[int], message: object) -> None:
        self.told.append((numbers, message))

    def gpus_of(self, numbers: object) -> dict[int, str]:
        assert numbers
        return self.own

    def go_between_gpus(self, parts: tuple[int, ...], numbers: object) -> None:
        assert numbers
        self.went.append(parts)

    def begin(self, own: dict[int, str], other: dict[int, str]) -> None:
        self.own = own
        self.agreement.agree({1: wire.Begin(SPEC, other)})


def test_only_parts_whose_gpus_differ_travel_between_them() -> None:
    trainer = Trainer()
    trainer.begin({0: "GPU-a", 1: "GPU-a"}, {0: "GPU-b", 1: "GPU-a"})
    assert trainer.told == [([1], wire.BetweenGpus((0,)))]
    assert trainer.went == [(0,)]


def test_what_stays_as_it_is_is_not_told_again() -> None:
    trainer = Trainer()
    for _ in range(2):
        trainer.begin({0: "GPU-a"}, {0: "GPU-b"})
    assert trainer.went == [(0,)]


def test_a_model_that_has_gone_to_the_host_takes_its_numbers_along() -> None:
    trainer = Trainer()
    trainer.begin({0: "GPU-a"}, {0: "GPU-b"})
    trainer.begin({0: "GPU-a"}, {})
    assert trainer.told[-1] == ([1], wire.BetweenGpus(()))
    assert trainer.went == [(0,), ()]


def test_nothing_is_said_of_models_on_the_cpu(caplog: pytest.LogCaptureFixture) -> None:
    trainer = Trainer()
    with caplog.at_level(logging.INFO):
        trainer.begin({}, {})
    assert trainer.told == trainer.went == []
    assert not caplog.records


def test_a_gpu_that_is_shared_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    trainer = Trainer()
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            trainer.begin({0: "GPU-a"}, {0: "GPU-a"})
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "part 0: dense numbers travel between ranks by way of host memory (Gloo): "
        "ranks 0 and 1 share GPU GPU-a"
    )
