"""k-means is compared at equal inertia, with as many threads as trainers."""

import pytest

from benchmarks.tables.beside import Candidate
from benchmarks.tables.clusters.compare import (
    EVEN,
    UNEVEN,
    Lloyd,
    candidates,
    equality,
    figures_of,
    ratios_of,
)

FLOOR, PEER = Candidate("", 0), Candidate("", 1)
OURS, SLOW = Candidate("rotation", 2), Candidate("rotation", 2, is_uneven=True)


def runs(ours: float = 10.0, peer: float = 10.0) -> dict[Candidate, list[Lloyd]]:
    return {
        FLOOR: [Lloyd(0.01, 0.01, 10.0), Lloyd(0.02, 0.01, 10.0)],
        PEER: [Lloyd(0.04, 0.01, peer)],
        Candidate("", 2): [Lloyd(0.03, 0.01, peer)],
        Candidate("rotation", 1): [Lloyd(0.02, 0.01, ours)],
        OURS: [Lloyd(0.015, 0.01, ours)],
        SLOW: [Lloyd(0.03, 0.01, ours)],
    }


def test_everyone_takes_turns_and_all_have_names_of_their_own() -> None:
    chosen = candidates(["push-pull", "rotation"], has_peer=True)
    assert chosen[0] == FLOOR
    assert len({(one.who, one.is_uneven) for one in chosen}) == len(chosen) == 9
    without = candidates(["push-pull"], has_peer=False)
    assert [one.who for one in without[1:]] == [
        "push-pull, 1 trainer",
        "push-pull, 2 trainers",
        "push-pull, 2 trainers",
    ]


@pytest.mark.parametrize(
    ("ours", "peer", "is_equal"),
    [(10.0, 10.0005, True), (10.0000001, 10.0, False), (10.0, 10.01, False)],
)
def test_ours_must_be_the_plain_loop_and_the_peer_near_it(
    ours: float, peer: float, is_equal: bool
) -> None:
    found, told = equality(runs(ours, peer))
    assert found is is_equal
    assert "inertia 10" in told


def test_ratios_are_of_equal_numbers_and_a_slow_trainer_is_against_an_even_job() -> None:
    ratios = ratios_of(figures_of(runs()))
    named = {(r.what, r.ours, r.against): r for r in ratios}
    two = named[EVEN, "rotation, 2 trainers", "scikit-learn, 2 threads"]
    assert two.value == pytest.approx(2.0)
    assert two.verdict == "reached"
    one = named[EVEN, "rotation, 1 trainer", "scikit-learn, 1 thread"]
    assert one.value == pytest.approx(2.0)
    slow = named[UNEVEN, "rotation, 2 trainers", "rotation, 2 trainers"]
    assert slow.value == pytest.approx(0.5)
    assert slow.verdict == ""
