"""Pushes have their effect exactly once, and malformed ones none."""

import re
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from paceline.config import Uniform
from paceline.ids import Span, Window
from paceline.messages.data import Pull, Pulled, PullRows, Push, Upload
from paceline.messages.locking import RowSlots
from paceline.messages.shared import Done, Message, Refusal
from tests.server.conftest import Array, Rows, Server, make_plan, verdict, window

MakeServer = Callable[..., Server]
ONES = {0: np.ones(6), 1: np.ones(4)}


@pytest.fixture
def server(make_server: MakeServer) -> Server:
    return make_server(plan=make_plan())


def test_a_push_is_applied_to_blocks_and_rows(server: Server) -> None:
    rows = Rows([5, -9], np.array([[1, 2], [3, 4]]))
    assert verdict(server.push(1, window(0), blocks=ONES, rows=rows)) == "applied"
    assert np.array_equal(server.pull()[0], -np.ones(6))
    assert np.array_equal(server.pull()[1], -np.ones(4))
    assert np.array_equal(server.pull_rows([5, -9, 6]), [[-1, -2], [-3, -4], [0, 0]])


def test_the_same_push_again_has_no_effect(server: Server) -> None:
    server.push(1, window(0), blocks=ONES)
    assert verdict(server.push(1, window(0), blocks=ONES)) == "duplicate"
    assert np.array_equal(server.pull()[0], -np.ones(6))


def test_a_window_replayed_by_another_trainer_has_no_effect(server: Server) -> None:
    server.push(1, window(0, 2), blocks=ONES)
    assert verdict(server.push(1, window(0, 2), blocks=ONES, trainer=12)) == "duplicate"
    assert verdict(server.push(2, window(3), blocks=ONES, trainer=12)) == "applied"
    assert np.array_equal(server.pull()[0], -2 * np.ones(6))


def test_a_window_behind_a_gap_is_refused(server: Server) -> None:
    server.push(1, window(0), blocks=ONES)
    assert verdict(server.push(2, window(2), blocks=ONES)) == "gap"
    assert server.version() == 1


def test_a_parameter_without_a_gradient_is_not_touched(server: Server) -> None:
    assert verdict(server.push(1, window(0), blocks={1: np.ones(4)})) == "applied"
    assert np.array_equal(server.pull()[0], np.zeros(6))


def test_another_timeline_is_refused(server: Server) -> None:
    server.timeline = 1
    assert verdict(server.push(1, window(0), blocks=ONES)) == "timeline"
    server.timeline = 0
    assert server.version() == 0


def _push(**changes: Any) -> Push:
    push = Push(
        incarnation=11,
        timeline=0,
        part=0,
        number=1,
        window=window(0),
        records=1,
        hyper=({"lr": 1.0},),
    )
    return msgspec.structs.replace(push, **changes)


ROWS = (RowSlots("user", (2,), (1,)),)
MALFORMED: list[tuple[Push, list[Array], str]] = [
    (_push(blocks=(0,)), [], "expected 1 buffers .* got 0"),
    (_push(blocks=(0,)), [np.ones(5)], "slot 0: expected 48 bytes, got 40"),
    (_push(blocks=(7,)), [np.ones(6)], r"dense slots \[0, 1\] .* got 7"),
    (_push(blocks=(0, 0)), [np.ones(6), np.ones(6)], "distinct blocks"),
    (_push(blocks=(0,), hyper=()), [np.ones(6)], "1 parameter groups, got 0"),
    (_push(blocks=(0,), hyper=({"lr": "x"},)), [np.ones(6)], "lr .* got 'x'"),
    (_push(blocks=(0,), hyper=({"lr": True},)), [np.ones(6)], "lr .* got True"),
    (_push(rows=ROWS), [np.ones(1, np.int64)], "expected 2 buffers .* got 1"),
    (
        _push(rows=ROWS),
        [np.ones(2, np.int64), np.ones(4, np.float32)],
        "ids .* 8 bytes, got 16",
    ),
    (
        _push(rows=ROWS),
        [np.ones(1, np.int64), np.ones(3, np.float32)],
        "gradients .* 8 bytes, got 12",
    ),
    (
        _push(rows=(RowSlots("item", (2,), (1,)),)),
        [np.ones(1, np.int64), np.ones(2, np.float32)],
        r"tables \['user'\], got 'item'",
    ),
    (
        _push(rows=(RowSlots("user", (1,), (1,)),)),
        [np.ones(1, np.int64), np.ones(2, np.float32)],
        r"row slots \[2, 3, 4\] .* got \[1\]",
    ),
    (
        _push(rows=(RowSlots("user", (2, 3), (2, -1)),)),
        [np.ones(1, np.int64), np.ones(2, np.float32)],
        "count >= 0",
    ),
    (_push(window=Window(0, 0, ())), [], "one or more batches"),
    (_push(window=Window(0, 0, (Span(0, 0, 0), Span(0, 0, 0)))), [], "batches"),
    (_push(window=window(3, 2)), [], "one or more batches"),
]


@pytest.mark.parametrize(("message", "arrays", "text"), MALFORMED)
def test_a_malformed_push_changes_nothing(
    server: Server, message: Push, arrays: list[Array], text: str
) -> None:
    refusal = server.ask(message, arrays)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "invalid"
    assert re.search(text, refusal.text)
    assert server.version() == 0
    assert verdict(server.push(1, window(0), blocks=ONES)) == "applied"


def test_an_unknown_part_is_not_ready_yet(server: Server) -> None:
    assert verdict(server.ask(_push(part=3))) == "not_ready"
    for message in (
        Pull(incarnation=11, timeline=0, part=3),
        Upload(incarnation=11, timeline=0, part=3, slots=()),
    ):
        assert verdict(server.ask(message)) == "not_ready"


def test_initial_values_are_uploaded_once(server: Server) -> None:
    upload = Upload(incarnation=11, timeline=0, part=0, slots=(1, 0))
    values = [np.arange(4.0), np.arange(6.0)]
    assert server.ask(upload, values) == Done()
    assert np.array_equal(server.pull()[0], values[1])
    server.push(1, window(0), blocks=ONES)
    assert server.ask(upload, values) == Done(), "a late repeat"
    assert np.array_equal(server.pull()[1], values[0] - 1)


def test_a_malformed_upload_changes_nothing(server: Server) -> None:
    upload = Upload(incarnation=11, timeline=0, part=0, slots=(0, 1))
    assert verdict(server.ask(upload, [np.ones(6), np.ones(3)])) == "invalid"
    assert np.array_equal(server.pull()[0], np.zeros(6))


def test_malformed_ids_are_refused(server: Server) -> None:
    pull = PullRows(incarnation=11, timeline=0, part=0, rows=ROWS, create=True)
    assert verdict(server.ask(pull, [np.ones(2, np.int64)])) == "invalid"
    assert verdict(server.ask(pull)) == "invalid"


def test_rows_read_as_they_begin_whether_made_or_not(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan(init=Uniform(0.1)))
    seen = server.pull_rows([3, 4, 5], create=False)
    assert np.array_equal(server.pull_rows([5, 3, 4], create=True), seen[[2, 0, 1]])
    assert np.any(seen != 0)


def test_a_pull_is_copied_before_the_next_push(server: Server) -> None:
    before = server.pull()[0]
    server.push(1, window(0), blocks=ONES)
    assert np.array_equal(before, np.zeros(6))


def test_pushes_of_many_trainers_all_count(server: Server) -> None:
    verdicts: list[Message] = []

    def train(trainer: int) -> None:
        for number in range(20):
            rows = Rows([trainer, 7], np.ones((2, 2)))
            verdicts.append(
                server.push(
                    number + 1,
                    window(number, task=trainer),
                    blocks=ONES,
                    rows=rows,
                    trainer=trainer,
                )
            )

    threads = [threading.Thread(target=train, args=(trainer,)) for trainer in range(20, 24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {verdict(one) for one in verdicts} == {"applied"}
    assert np.array_equal(server.pull()[0], -80 * np.ones(6))
    assert np.array_equal(server.pull_rows([20, 7]), [[-20, -20], [-80, -80]])
    assert server.version() == 80


def test_a_pull_says_its_version(server: Server) -> None:
    server.push(1, window(0), blocks=ONES)
    message = server.ask(Pull(incarnation=11, timeline=0, part=0))
    assert message == Pulled(slots=(0, 1), round=0, version=1)
