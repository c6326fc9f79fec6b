"""Rounds: prepared pushes become one update, equal to one process on the joined batch."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from paceline.config import Adagrad, Sync
from paceline.messages.data import Pull, Pulled, Push
from paceline.messages.server import CommitRound, Fence, FenceReport, MarkEntry
from paceline.messages.shared import OptimizerSpec, Refusal, Waiting
from paceline.messages.waits import Wait
from paceline.timing import ManualClock
from paceline.transport.service import Peer
from tests.server.conftest import (
    Answered,
    Array,
    Rows,
    Server,
    contribution,
    make_plan,
    task_key,
    verdict,
    window,
)

MakeServer = Callable[..., Server]
ADAM = OptimizerSpec("Adam", ({"lr": 0.1},))
FIRST, SECOND = window(0, task=1), window(0, task=2)
ONES = {0: np.ones(6), 1: np.ones(4)}


def _gradients(seed: int) -> tuple[dict[int, Array], int]:
    """Mean gradients of a seeded batch of a linear model, and its records."""
    random = np.random.default_rng(seed)
    records = 3 + seed
    features = random.normal(size=(records, 10))
    mean = features.mean(axis=0)
    return {0: mean[:6].copy(), 1: mean[6:].copy()}, records


@pytest.mark.parametrize(
    "optimizer",
    [OptimizerSpec("SGD", ({"lr": 0.1, "momentum": 0.9},)), ADAM],
    ids=lambda spec: spec.kind,
)
def test_rounds_equal_one_process_on_the_joined_batch(
    make_server: MakeServer, optimizer: OptimizerSpec
) -> None:
    server = make_server(plan=make_plan(pace=Sync(), optimizer=optimizer))
    weights = torch.zeros(10, dtype=torch.float64)
    plain = getattr(torch.optim, optimizer.kind)([weights], **optimizer.groups[0])
    for step in range(4):
        (one, n_one), (two, n_two) = _gradients(2 * step), _gradients(2 * step + 1)
        first, second = window(step, task=1), window(step, task=2)
        server.push(step + 1, first, blocks=one, trainer=11, round=step + 1)
        server.push(step + 1, second, blocks=two, trainer=12, round=step + 1)
        total = n_one + n_two
        server.commit(
            step + 1,
            contribution(step + 1, first, n_one / total, 11),
            contribution(step + 1, second, n_two / total, 12),
        )
        joined = [(n_one * one[slot] + n_two * two[slot]) / total for slot in (0, 1)]
        weights.grad = torch.from_numpy(np.concatenate(joined))
        plain.step()
    found = server.pull()
    values = np.concatenate([found[0], found[1]])
    assert np.allclose(values, weights.numpy(), rtol=1e-12, atol=1e-12)


def test_rows_of_a_round_equal_one_embedding(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan(pace=Sync(), rows=Adagrad(lr=0.1)))
    embedding = torch.nn.Embedding(8, 2, _weight=torch.zeros(8, 2))
    plain = torch.optim.Adagrad(embedding.parameters(), lr=0.1)
    random = np.random.default_rng(0)
    for step, (one, two) in enumerate([([1, 2, 3], [3, 4]), ([2], [2]), ([5], [6, 1])]):
        rows = [
            Rows(ids, random.normal(size=(len(ids), 2)).astype(np.float32))
            for ids in (one, two)
        ]
        first, second = window(step, task=1), window(step, task=2)
        server.push(step + 1, first, rows=rows[0], trainer=11, round=step + 1)
        server.push(step + 1, second, rows=rows[1], trainer=12, round=step + 1)
        server.commit(
            step + 1,
            contribution(step + 1, first, 0.25, 11),
            contribution(step + 1, second, 0.75, 12),
        )
        joined = np.concatenate([rows[0].gradients * 0.25, rows[1].gradients * 0.75])
        dense = np.zeros((8, 2), np.float32)
        np.add.at(dense, one + two, joined)
        embedding.weight.grad = torch.from_numpy(dense)
        plain.step()
    found = server.pull_rows(list(range(8)))
    assert np.allclose(found, embedding.weight.detach().numpy(), rtol=1e-5, atol=1e-7)


def test_a_prepared_push_changes_nothing_before_its_round(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan(pace=Sync()))
    assert verdict(server.push(1, FIRST, blocks=ONES, round=1)) == "prepared"
    assert verdict(server.push(1, FIRST, blocks=ONES, round=1)) == "prepared"
    assert np.array_equal(server.pull()[0], np.zeros(6))
    order = CommitRound(part=0, round=1, contributions=(contribution(1, FIRST, 1.0),))
    server.coordinator.order(order, order, until=lambda r: r.parts[0].applied_round == 1)
    assert np.array_equal(server.pull()[0], -np.ones(6))
    assert verdict(server.push(1, FIRST, blocks=ONES, round=1)) == "duplicate"


@pytest.mark.parametrize("is_lent", [True, False])
def test_what_is_lent_is_read_in_place_when_its_round_comes(
    make_server: MakeServer, is_lent: bool
) -> None:
    server = make_server(plan=make_plan(pace=Sync()))
    lent = [np.ones(6).view(np.uint8), np.ones(4).view(np.uint8)]
    push = Push(
        incarnation=11,
        timeline=0,
        part=0,
        number=1,
        window=FIRST,
        records=1,
        round=1,
        is_lent=is_lent,
        hyper=({"lr": 1.0},),
        blocks=(0, 1),
    )
    answered = Answered()
    server.service.received(Peer("trainer-11", "run", 11, 11), push, lent, answered)
    assert verdict(answered.wait()) == "prepared"
    for values in lent:
        values[:] = 0  # no trainer does so: it shows which memory is read
    server.commit(1, contribution(1, FIRST, 1.0, 11))
    assert server.pull()[0].any() != is_lent


def test_an_absent_gradient_counts_as_zero(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan(pace=Sync()))
    server.push(1, FIRST, blocks={0: np.ones(6)}, trainer=11, round=1)
    server.push(1, SECOND, trainer=12, round=1)
    server.commit(1, contribution(1, FIRST, 0.25, 11), contribution(1, SECOND, 0.75, 12))
    assert np.array_equal(server.pull()[0], -0.25 * np.ones(6))


def test_a_gradient_absent_everywhere_leaves_momentum_alone(
    make_server: MakeServer,
) -> None:
    server = make_server(plan=make_plan(pace=Sync(), optimizer=ADAM))
    server.push(1, FIRST, blocks=ONES, round=1)
    server.commit(1, contribution(1, FIRST, 1.0))
    before = server.pull()
    server.push(2, window(1, task=1), blocks={0: np.ones(6)}, round=2)
    server.commit(2, contribution(2, window(1, task=1), 1.0))
    after = server.pull()
    assert np.array_equal(before[1], after[1])
    assert not np.array_equal(before[0], after[0])


def test_only_the_contributors_of_a_round_count(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan(pace=Sync()))
    server.push(1, FIRST, blocks=ONES, trainer=11, round=1)
    server.push(1, SECOND, blocks=ONES, trainer=12, round=1)
    server.commit(1, contribution(1, SECOND, 1.0, 12))
    assert np.array_equal(server.pull()[0], -np.ones(6))


def test_a_pull_waits_for_its_round(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan(pace=Sync()), clock=ManualClock())
    server.push(1, FIRST, blocks=ONES, round=1)
    parked = server.submit(Pull(incarnation=11, timeline=0, part=0, at_round=1))
    assert not parked.is_given()
    server.commit(1, contribution(1, FIRST, 1.0))
    assert parked.wait() == Pulled(slots=(0, 1), round=1, version=1)
    assert np.array_equal(parked.buffers[0].view(np.float64), -np.ones(6))


def test_a_pull_waits_only_so_long(make_server: MakeServer) -> None:
    clock = ManualClock()
    server = make_server(plan=make_plan(pace=Sync()), clock=clock)
    parked = server.submit(Pull(incarnation=11, timeline=0, part=0, at_round=1))
    assert not parked.is_given()
    clock.advance(1.5)
    message = parked.wait()
    assert isinstance(message, Waiting)
    reason = "round 1 of part 0 is not applied at server-0 yet"
    assert message.wait == Wait("round", reason, ("server-0",), 0, 1.5)


def test_a_pull_that_is_asked_for_again_waits_since_the_first_time(
    make_server: MakeServer,
) -> None:
    clock = ManualClock()
    server = make_server(plan=make_plan(pace=Sync()), clock=clock)
    lasted = []
    for at_round in (1, 1, 1, 2):
        parked = server.submit(Pull(incarnation=11, timeline=0, part=0, at_round=at_round))
        clock.advance(1.5)
        message = parked.wait()
        assert isinstance(message, Waiting)
        lasted.append(message.wait.since_s)
    assert lasted == [1.5, 3.0, 4.5, 1.5]


def test_closing_answers_who_waits(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan(pace=Sync()), clock=ManualClock())
    parked = server.submit(Pull(incarnation=11, timeline=0, part=0, at_round=1))
    server.service.close()
    assert parked.wait() == Waiting(wait=Wait("servers", "server-0 closes", ("server-0",)))


def test_contributors_with_different_hyper_parameters_fail_the_job_by_name(
    make_server: MakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server(plan=make_plan(pace=Sync()))
    server.push(1, FIRST, blocks=ONES, trainer=11, round=1, hyper={"lr": 1.0})
    server.push(1, SECOND, blocks=ONES, trainer=12, round=1, hyper={"lr": 0.5})
    contributions = (contribution(1, FIRST, 0.5, 11), contribution(1, SECOND, 0.5, 12))
    order = CommitRound(part=0, round=1, contributions=contributions)
    parked = server.submit(Pull(incarnation=11, timeline=0, part=0, at_round=1))
    server.coordinator.order_last(order)
    report = server.coordinator.order(until=lambda report: report.broken is not None)
    assert report.broken is not None
    assert (
        "trainer-11 and trainer-12 step with different hyper-parameters: lr 1.0 and 0.5"
        in (report.broken)
    )
    assert "session.schedule" in report.broken
    assert not server.service.wait_over(0.0), "another one would fail in the same way"
    refused = parked.wait()
    assert isinstance(refused, Refusal), "its numbers are those of the round before"
    assert "different hyper-parameters" in refused.text
    assert "cannot go on" in caplog.text
    assert verdict(server.push(2, window(1, task=1))) == "invalid"


def test_fencing_drops_what_is_prepared(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan(pace=Sync()))
    server.push(1, FIRST, blocks=ONES, trainer=11, round=1)
    fence = Fence(incarnation=11, keys=(task_key(1),), rounds={0: 0})
    report = server.coordinator.order(fence, until=lambda report: bool(report.answers))
    assert report.answers == (
        FenceReport(incarnation=11, marks=(MarkEntry(task_key(1), (-1,)),)),
    )
    assert report.counters["prepared_dropped"] == 1
    assert verdict(server.push(2, FIRST, blocks=ONES, trainer=11, round=1)) == "fenced"
    assert verdict(server.push(1, FIRST, blocks=ONES, trainer=12, round=1)) == "prepared"
    server.commit(1, contribution(1, FIRST, 1.0, 12))
    assert np.array_equal(server.pull()[0], -np.ones(6))


def test_a_server_without_slots_leaves_rounds_to_the_others(
    make_server: MakeServer,
) -> None:
    plan = make_plan(pace=Sync(), placement=lambda _: "server-1")
    server = make_server(plan=plan)
    assert verdict(server.push(1, FIRST, round=1)) == "duplicate"
    report = server.commit(1, contribution(1, FIRST, 1.0))
    assert report.parts[0].applied_round == 1
    assert report.counters["duplicates"] == 0
    assert server.pull() == {}
