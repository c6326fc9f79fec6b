"""Pushes that are refused, in the wind tunnel: one verdict for all, whoever dies."""

from collections.abc import Callable
from random import Random

import msgspec
import pytest

from paceline.config import SSP, Async, Guards, Pace, Sync
from paceline.ids import TaskKey, Window
from paceline.server.decisions import voids
from paceline.server.decisions.state import ServerState
from paceline.trainer.acts import Act, Asking
from paceline.trainer.holdings.parts import SharedPart
from paceline.trainer.protocol import stepping
from paceline.trainer.protocol.pushing import LeavingWindow
from tests.simulate.checks import Violation, check_one_verdict
from tests.simulate.faults import QUIET
from tests.simulate.job import SimJob, SimReport, draw_job, run_job

Patch = pytest.MonkeyPatch
SEEDS = 60


def draw_guarded(seed: int) -> SimJob:
    """Trainers that push what is too old or too wild, on several servers, with faults."""
    random = Random(seed)
    age = random.choice([0, 1, 3])
    old, both = Guards(drop=age), Guards(drop=age, norm=6)
    paces: list[tuple[Pace, ...]] = [
        (Async(guards=old),),
        (Async(push_every=3, pull_every=3, guards=both),),
        (Async(pull_every=2, guards=both),),
        (Async(guards=Guards(norm=6)), Async(guards=old)),
        (SSP(staleness=2, guards=both),),
        (Async(guards=Guards(drop=age, old="again")),),
        (SSP(staleness=1, guards=Guards(drop=age, old="again", norm=6)),),
        (Sync(guards=Guards(norm=6)), Async(guards=old)),
        (Sync(backup=1, guards=Guards(norm=6)),),
    ]
    return draw_job(seed)._replace(
        trainers=random.choice([2, 3, 5]),
        servers=random.choice([2, 3]),
        paces=random.choice(paces),
    )


def run_seeds(count: int, *, first: int = 0) -> list[SimReport]:
    """So many jobs, each to its end."""
    return [run_job(draw_guarded(seed)) for seed in range(first, first + count)]


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_no_push_is_half_applied_whoever_dies() -> None:
    reports = run_seeds(SEEDS)
    assert sum(report.voids for report in reports) > SEEDS
    assert sum(report.timelines for report in reports) > 0
    assert sum(report.duplicates for report in reports) > 0


@pytest.mark.parametrize("old", ["drop", "again"])
def test_what_is_too_old_has_no_effect_or_is_trained_again(old: str) -> None:
    guards = Guards(drop=0, old=old)  # type: ignore[arg-type]  # one of the two
    report = run_job(SimJob(1, paces=(Async(guards=guards),), rates=QUIET))
    assert (report.voids > 0) == (old == "drop")
    assert (report.timelines, report.fenced) == (0, 0)


def test_what_some_servers_passed_over_before_a_pace_of_rounds_is_passed_over_by_all() -> (
    None
):
    """Seed 21887: a return, in rounds, to a cut that was taken before there were any."""
    run_seeds(1, first=21887)


def test_a_state_that_comes_again_does_not_take_the_place_of_the_average() -> None:
    """Seed 30837: servers have let go of it, and whoever joined was refused it for ever."""
    run_seeds(1, first=30837)


def test_who_is_not_let_in_again_ends_and_is_started_anew() -> None:
    """Seed 706: a process that had ended was let in behind the one that came after it."""
    run_seeds(1, first=706)


def test_a_batch_that_one_slot_passes_over_and_another_applies_is_caught() -> None:
    key = TaskKey(0, 0, 3)
    with pytest.raises(
        Violation, match="batch 1 of s0/e0/t3 is void in part 0, and slot 5"
    ):
        check_one_verdict(0, {4: {(key, 1)}, 5: set()})


# ------------------------------------------------------------------ known bugs


def every_server_judges(patch: Patch) -> None:
    """Each server says for itself if a push is too old."""

    def ask_all(asking: Asking, leaving: LeavingWindow, _judge: str) -> Act[LeavingWindow]:
        judged = {
            server: msgspec.structs.replace(push, is_judged=True)  # type: ignore[call-arg]  # pushes
            for server, push in leaving.pushes.items()
        }
        yield from asking.ask_servers(judged)
        return LeavingWindow(leaving.message, {}, leaving.refused)

    patch.setattr(stepping, "ask_judge", ask_all)


def voids_are_not_remembered(patch: Patch) -> None:
    """Marks pass over a refused window, and nobody knows why."""

    def add(_self: voids.Voids, _part: int, _window: Window) -> None:
        pass

    patch.setattr(voids.Voids, "add", add)


def voids_are_in_no_cut(patch: Patch) -> None:
    """After a return nobody knows which batches had no effect."""
    patch.setattr(ServerState, "export_voids", lambda _self: ())


def replays_are_judged(patch: Patch) -> None:
    """What one server has applied may be too old for another when it is pushed again."""

    def judge(self: SharedPart) -> str | None:
        assert self.plan is not None
        if self.spec.pace.guards is None or self.spec.pace.guards.drop is None:
            return None
        return None if self.refused else self.plan.placement[min(self.plan.placement)]

    patch.setattr(SharedPart, "judge", property(judge))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "seed"),
    [
        (every_server_judges, 0),
        (voids_are_not_remembered, 157),
        (voids_are_in_no_cut, 185),
        (replays_are_judged, 189),
    ],
)
def test_a_planted_bug_is_caught(
    plant: Callable[[Patch], None], seed: int, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation):
        run_seeds(20, first=seed)
