"""DiLoCo in fragments, and with rounds that nobody waits for: the paper's loop, by hand."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.config import DiLoCo
from paceline.pace.policy import batches_of_turn, cut_fragments
from tests.cluster.test_local_steps import (
    BATCH,
    RECORDS,
    adam,
    columns,
    fresh_model,
    loss_of,
    script_of,
)


class ByHand:
    """Streaming DiLoCo of one trainer, in a plain loop (Douillard 2025, algorithm 2)."""

    def __init__(self, pace: DiLoCo) -> None:
        self.pace = pace
        self.model, self.shared = fresh_model(), fresh_model()
        self.inner = adam(self.model)
        mine, shared = list(self.model.parameters()), list(self.shared.parameters())
        sizes = [one.nbytes for one in mine]
        pieces = cut_fragments(sizes, pace.fragments)
        self.mine = [[mine[i] for i in piece] for piece in pieces]
        self.of_all = [[shared[i] for i in piece] for piece in pieces]
        self.outer = [
            torch.optim.SGD(
                piece, lr=pace.outer_lr, momentum=pace.outer_momentum, nesterov=True
            )
            for piece in self.of_all
        ]
        self.next = self.since = 0
        self.out: int | None = None  # the fragment that is on its way
        self.gone_on = 0

    def train(self, batches: list[Any], epochs: int) -> list[torch.Tensor]:
        per_epoch = len(batches) // epochs
        for number, batch in enumerate(batches, 1):
            self.inner.zero_grad()
            loss_of(self.model, batch).backward()
            self.inner.step()
            self.since += 1
            self.gone_on += 1
            if self.out is not None and self.gone_on == self.pace.overlap:
                self.land()
            if self.since == batches_of_turn(self.pace, self.next):
                self.push()
                if not self.pace.overlap:
                    self.land()
            if number % per_epoch == 0:
                self.flush()
        return [one.detach() for one in self.shared.parameters()]

    def push(self) -> None:
        mine, of_all = self.mine[self.next], self.of_all[self.next]
        for own, shared in zip(mine, of_all, strict=True):
            shared.grad = shared.detach() - own.detach()
        self.outer[self.next].step()
        self.out, self.since, self.gone_on = self.next, 0, 0
        self.next = (self.next + 1) % self.pace.fragments

    def land(self) -> None:
        assert self.out is not None
        mix = self.pace.mix if self.gone_on else 0.0
        with torch.no_grad():
            for own, shared in zip(self.mine[self.out], self.of_all[self.out], strict=True):
                own.copy_(mix * own + (1 - mix) * shared)
        self.out = None

    def flush(self) -> None:
        """The data are over: what has not been in a round goes, in turn."""
        last = self.next if self.since else (self.next - 1) % self.pace.fragments
        if self.out is not None:
            self.land()
        while True:
            if self.next == last and not self.since:
                break
            self.push()
            self.land()
            if self.next == last:
                break


@pytest.mark.parametrize(
    "pace",
    [
        DiLoCo(every=6, fragments=2),
        DiLoCo(every=7, fragments=3),
        DiLoCo(every=6, fragments=2, overlap=1),
        DiLoCo(every=8, fragments=2, overlap=3, mix=0.25),
        DiLoCo(every=8, fragments=4, overlap=1, mix=0.0),
        DiLoCo(every=4, overlap=2),
        DiLoCo(every=5, overlap=4, outer_lr=0.4),
    ],
    ids=str,
)
def test_one_trainer_is_the_papers_loop(
    pace: DiLoCo, run: Callable[..., list[Any]]
) -> None:
    [seen] = run(script_of(adam, epochs=2), trainers=1, pace=pace)
    assert len(seen.batches) == 2 * RECORDS // BATCH
    expected = ByHand(pace).train(seen.batches, 2)
    for value, wanted in zip(seen.values, expected, strict=True):
        torch.testing.assert_close(value, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "pace", [DiLoCo(every=6, fragments=3), DiLoCo(every=6, fragments=2, overlap=2)], ids=str
)
def test_all_trainers_end_with_the_same_values_and_each_batch_counts_once(
    pace: DiLoCo, run: Callable[..., list[Any]]
) -> None:
    found = run(script_of(adam, epochs=4), trainers=3, pace=pace)
    first, *others = found
    for other in others:
        for mine, theirs in zip(first.values, other.values, strict=True):
            assert torch.equal(mine, theirs)
    assert sum(len(seen.batches) for seen in found) == 4 * RECORDS // BATCH
    assert run.jobs[0].close()["records"] == 4 * RECORDS  # type: ignore[attr-defined]


def test_a_push_carries_one_fragment_of_the_bytes(run: Callable[..., list[Any]]) -> None:
    def script(session: paceline.Session) -> None:
        model = nn.Sequential(*(nn.Linear(5, 5, bias=False) for _ in range(4))).double()
        optimizer = session.share(model, adam(model))
        for batch in session.batches(columns(), BATCH, task_size=16):
            optimizer.zero_grad()
            model(batch[0]).sum().backward()
            optimizer.step()

    run(script, trainers=1, pace=DiLoCo(every=8, fragments=4))
    counters = run.jobs[0].close()["counters"]  # type: ignore[attr-defined]
    rounds = RECORDS // BATCH // 8
    sent = [counters[f"part-{part}.gradient_bytes_sent"] for part in range(4)]
    one = 5 * 5 * 8
    assert sent[3] == rounds * one, "the last fragment's rounds end with the data"
    assert sent[:3] == [(rounds + 1) * one] * 3, "the others have a short one more"


def test_rows_beside_fragments_move_with_every_step(run: Callable[..., list[Any]]) -> None:
    class WithRows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = paceline.Embedding("rows", 4)
            self.linear = nn.Linear(4, 1)

    def script(session: paceline.Session) -> None:
        model = WithRows()
        session.share(model.rows, pace=paceline.Async())
        optimizer = session.share(model, adam(model))
        for batch in session.batches(torch.arange(RECORDS), BATCH, task_size=16):
            optimizer.zero_grad()
            model.linear(model.rows(batch)).sum().backward()
            optimizer.step()

    run(script, trainers=2, pace=DiLoCo(every=6, fragments=2, overlap=2))
    assert run.jobs[0].close()["records"] == RECORDS  # type: ignore[attr-defined]


def test_more_fragments_than_parameters_are_refused(run: Callable[..., list[Any]]) -> None:
    def script(session: paceline.Session) -> None:
        model = columns_model()
        with pytest.raises(paceline.UsageError, match="this one has 2: fragments is to be"):
            session.share(model, adam(model))

    def columns_model() -> nn.Module:
        return nn.Linear(columns()[0].shape[1], 1).double()

    run(script, trainers=1, pace=DiLoCo(every=6, fragments=3))


def test_fragments_and_another_part_in_rounds_are_refused(
    run: Callable[..., list[Any]],
) -> None:
    def script(session: paceline.Session) -> None:
        model, other = fresh_model(), fresh_model()
        session.share(model, adam(model))
        with pytest.raises(paceline.UsageError, match="turns that other rounds know"):
            session.share(other, adam(other))

    run(script, trainers=1, pace=DiLoCo(every=6, fragments=2))
