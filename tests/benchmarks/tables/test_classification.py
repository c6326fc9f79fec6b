"""Logistic regression is compared at equal loss, with as many threads as trainers."""

import pytest

from benchmarks.tables.beside import Candidate, candidates
from benchmarks.tables.classification.compare import (
    UNTIL,
    Fitted,
    equality,
    figures_of,
    ratios_of,
    run_of,
)

INFINITE = float("inf")
FLOOR, PEER, OURS = Candidate("", 0), Candidate("", 2), Candidate("push-pull", 2)


def runs(peer: float = 1.0) -> dict[Candidate, list[Fitted]]:
    return {
        FLOOR: [Fitted(0.01, 0.01, 1.0, 20)],
        PEER: [Fitted(0.04, 0.02, peer, 9)],
        OURS: [Fitted(0.02, 0.02, 1.0, 20)],
    }


def test_everyone_takes_turns_and_all_have_names_of_their_own() -> None:
    chosen = candidates(["push-pull", "allreduce"], has_peer=True)
    assert chosen[0] == FLOOR
    assert len({one.who for one in chosen}) == len(chosen) == 7
    assert len(candidates(["push-pull"], has_peer=False)) == 3


def test_a_run_is_from_the_first_gradient_to_who_knows_the_loss_first() -> None:
    first = [(10.0, 1.0, INFINITE), (11.0, 1.5, 0.9), (12.0, 2.0, 0.4), (13.0, 3.0, 0.3)]
    second = [(10.5, 4.0, INFINITE), (11.5, 4.1, 0.9), (12.5, 4.2, 0.4)]
    assert run_of([second, first], 0.5) == Fitted(2.0, pytest.approx(1.2), 0.4, 1)


def test_who_never_came_to_the_loss_is_no_run() -> None:
    with pytest.raises(RuntimeError, match=r"came to the loss 0\.5, but to 0\.9"):
        run_of([[(1.0, 1.0, INFINITE), (2.0, 2.0, 0.9)]], 0.5)


@pytest.mark.parametrize(
    ("peer", "is_equal"), [(0.9, True), (1.0 + 1e-10, True), (1.0001, False)]
)
def test_nobody_may_be_above_the_loss(peer: float, is_equal: bool) -> None:
    found, told = equality(runs(peer), 1.0)
    assert found is is_equal
    assert "scikit-learn, 2 threads 9" in told


def test_ratios_are_of_equal_numbers_and_of_the_floor() -> None:
    named = {(r.what, r.against): r for r in ratios_of(figures_of(runs()))}
    assert named[UNTIL, "scikit-learn, 2 threads"].value == pytest.approx(2.0)
    assert named[UNTIL, "scikit-learn, 2 threads"].verdict == "reached"
    assert named[UNTIL, "the plain loop alone"].value == pytest.approx(0.5)
