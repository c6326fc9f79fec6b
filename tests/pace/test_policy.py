import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import SSP, Async, DiLoCo, LocalSGD, Pace, Sync
from paceline.pace.policy import (
    is_within,
    may_do_without,
    outer_step,
    pull_from,
    push_from,
    pushes_overlap,
    pushes_per_update,
    staleness_of,
    steps_locally,
    updates_in_rounds,
    weigh,
    why_not_beside,
)


def test_sync_pushes_every_step_and_lets_rounds_pull() -> None:
    assert updates_in_rounds(Sync())
    assert push_from(Sync()) == 1
    assert pull_from(Sync(), has_pushed=True) > 1000


@given(st.integers(1, 9), st.integers(1, 9))
def test_async_pushes_every_n_and_pulls_every_m(n: int, m: int) -> None:
    pace = Async(push_every=n, pull_every=m)
    assert not updates_in_rounds(pace)
    assert push_from(pace) == n
    assert pull_from(pace, has_pushed=False) == m


@given(st.integers(1, 9), st.integers(1, 20), st.integers(1, 8))
def test_a_batch_lacks_at_most_the_last_m_minus_one(n: int, m: int, windows: int) -> None:
    pace = Async(push_every=n, pull_every=m)
    late = (
        n if pushes_overlap(pace) else 0
    )  # values come one push after they were asked for
    since, lacking = 0, 0
    for _ in range(windows):
        since += n
        lacking = max(lacking, since - 1 + late)
        if since >= pull_from(pace, has_pushed=True):
            since = 0
    assert lacking <= max(m, n) - 1


def test_pushes_are_merged_only_where_they_are_let() -> None:
    assert pushes_per_update(Async()) == pushes_per_update(Sync()) == 1
    assert pushes_per_update(Async(merge=5)) == 5


def test_pushes_overlap_where_that_many_batches_may_be_lacking() -> None:
    assert pushes_overlap(Async(pull_every=2))
    assert not pushes_overlap(Async(push_every=2, pull_every=3))
    assert not pushes_overlap(Async())
    assert not pushes_overlap(Sync())


@given(st.lists(st.integers(1, 512), min_size=1, max_size=8))
def test_the_weights_of_a_mean_add_up_to_one(records: list[int]) -> None:
    weights = [weigh(Sync(), n, sum(records)) for n in records]
    assert sum(weights) == pytest.approx(1.0)
    assert all(weigh(Sync(reduce="sum"), n, sum(records)) == 1.0 for n in records)


def test_a_round_of_one_weighs_exactly_one() -> None:
    assert weigh(Sync(), 37, 37) == 1.0


def test_ssp_pushes_and_pulls_every_step_at_once() -> None:
    pace = SSP(staleness=3)
    assert not updates_in_rounds(pace)
    assert push_from(pace) == 1
    assert pull_from(pace, has_pushed=True) <= 0
    assert pull_from(pace, has_pushed=False) == 1, (
        "values that lack an own push do not serve"
    )
    assert not pushes_overlap(pace)


def test_only_ssp_bounds_clocks() -> None:
    assert staleness_of(SSP(staleness=3)) == 3
    assert staleness_of(Sync()) is staleness_of(Async()) is None


@given(st.integers(0, 10), st.integers(0, 100), st.integers(0, 100))
def test_a_trainer_is_at_most_its_staleness_ahead(s: int, clock: int, slowest: int) -> None:
    assert is_within(s, clock, slowest) == (clock <= slowest + s)


@pytest.mark.parametrize(
    ("paces", "is_refused"),
    [
        ((Sync(), SSP(staleness=0)), True),
        ((Sync(), SSP(staleness=1)), False),
        ((Async(), SSP(staleness=0)), False),
        ((SSP(staleness=0), SSP(staleness=4)), False),
        ((Sync(backup=1), Sync()), True),
        ((Sync(backup=1), Sync(backup=1)), True),
        ((Sync(backup=1), Async()), False),
        ((Sync(backup=1), SSP(staleness=3)), True),
        ((Sync(backup=1, late="again"), Async()), True),
        ((Sync(), Sync()), False),
        ((LocalSGD(every=4), LocalSGD(every=5)), True),
        ((LocalSGD(every=4), DiLoCo(every=4)), False),
        ((LocalSGD(every=4), Sync()), True),
        ((LocalSGD(every=4), SSP(staleness=3)), True),
        ((LocalSGD(every=4), Async()), False),
        ((DiLoCo(every=4, fragments=2), DiLoCo(every=4)), True),
        ((DiLoCo(every=4, fragments=2),) * 2, False),
        ((DiLoCo(every=4, fragments=2),) * 3, True),
        ((DiLoCo(every=4, overlap=1), DiLoCo(every=4, overlap=1)), True),
        ((DiLoCo(every=4, fragments=2, overlap=1), Async()), False),
    ],
)
def test_paces_that_would_wait_for_each_other_are_refused(
    paces: tuple[Pace, ...], is_refused: bool
) -> None:
    reason = why_not_beside(paces)
    assert (reason is not None) == is_refused
    assert reason is None or str(paces[0]) in reason


@given(st.integers(0, 3), st.integers(1, 8), st.integers(0, 8))
def test_a_round_does_without_its_backup_but_never_without_all(
    backup: int, trainers: int, missing: int
) -> None:
    allowed = may_do_without(Sync(backup=backup), missing, trainers)
    assert allowed == (missing <= backup and missing < trainers)


@pytest.mark.parametrize("pace", [LocalSGD(every=4), DiLoCo(every=4)])
def test_local_steps_are_pushed_in_rounds_of_so_many_batches(pace: Pace) -> None:
    assert updates_in_rounds(pace)
    assert steps_locally(pace)
    assert push_from(pace) == 4
    assert pull_from(pace, has_pushed=True) > 100, "rounds pull by themselves"


def test_local_sgd_takes_the_mean_delta_as_it_is() -> None:
    assert outer_step(LocalSGD(every=4)) == {"lr": 1.0, "momentum": 0.0, "nesterov": False}
    found = outer_step(DiLoCo(every=4, outer_lr=0.5, outer_momentum=0.8))
    assert found == {"lr": 0.5, "momentum": 0.8, "nesterov": True}
    assert outer_step(DiLoCo(every=4, outer_momentum=0.0))["nesterov"] is False
