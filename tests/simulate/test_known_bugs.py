"""Bugs that systems like this one have had, put back one at a time: each is caught."""

from collections.abc import Callable
from typing import Any

import pytest

from paceline.coordinator import decisions, grants, requests, tracking
from paceline.coordinator.book import Effect
from paceline.coordinator.cuts import Counted, ManifestOrder, OpenCut
from paceline.coordinator.durable import Durable
from paceline.coordinator.outcomes import AnyOutcome
from paceline.coordinator.queue import encode_queue
from paceline.coordinator.tasks import num_todo
from paceline.ids import Window
from paceline.messages import Tick
from paceline.server.state import ServerState
from paceline.server.windows import Marks, WindowDecision
from paceline.simulate.checks import Violation
from paceline.simulate.coordinator import FAULT, SimCoordinator
from paceline.simulate.job import draw_job, run_job

Patch = pytest.MonkeyPatch


def no_token_check(patch: Patch) -> type[SimCoordinator]:
    """A member that was given up may go on writing."""
    patch.setattr(ServerState, "_fence_of", lambda _self, _message: None)
    patch.setattr(requests, "refusal_of", lambda _book, _asker, _message: None)
    return SimCoordinator


def acknowledge_before_journal(_patch: Patch) -> type[SimCoordinator]:
    """Answers go out first, and the coordinator dies before it writes."""

    class Hasty(SimCoordinator):
        def carry_out(self, outcomes: list[AnyOutcome], effects: list[Effect]) -> None:
            for effect in effects:
                self.send(effect)
            if outcomes:
                self.may_crash(FAULT)
                self._journal.outcomes += outcomes

    return Hasty


def identity_by_trainer(patch: Patch) -> type[SimCoordinator]:
    """A push is known by its sender and number, not by its window."""

    def decide(_self: Marks, _window: Window, slots: tuple[int, ...]) -> WindowDecision:
        return WindowDecision("new", slots, "its number is new")

    patch.setattr(Marks, "decide", decide)
    return SimCoordinator


def late_finish_accepted(patch: Patch) -> type[SimCoordinator]:
    """A finish report counts whatever lease and timeline it belongs to."""
    check = requests.refusal_of

    def refusal_of(book: Any, asker: Any, message: Any) -> Any:
        return None if isinstance(message, Tick) else check(book, asker, message)

    patch.setattr(requests, "refusal_of", refusal_of)
    return SimCoordinator


def epoch_over_with_pending_tasks(patch: Patch) -> type[SimCoordinator]:
    """The epoch rolls over when ``todo`` is empty, whoever still works."""

    def is_epoch_over(state: Durable) -> bool:
        return state.stage_spec() is not None and num_todo(state) == 0

    patch.setattr(decisions, "is_epoch_over", is_epoch_over)
    return SimCoordinator


def slots_before_queue(patch: Patch) -> type[SimCoordinator]:
    """A cut copies the queue after the slots."""
    begin, end = OpenCut.__init__, OpenCut.manifest

    def init(
        self: OpenCut,
        cut: int,
        state: Durable,
        counted: Counted,
        now: float,
        *,
        ends_stage: bool,
    ) -> None:
        begin(self, cut, state, counted, now, ends_stage=ends_stage)
        self.live = state  # type: ignore[attr-defined]  # the bug looks at it too late

    def manifest(self: OpenCut) -> ManifestOrder:
        order = end(self)
        if order.ends_stage:
            return order
        return order._replace(queue=encode_queue(self.live.queue))  # type: ignore[attr-defined]

    patch.setattr(OpenCut, "__init__", init)
    patch.setattr(OpenCut, "manifest", manifest)
    return SimCoordinator


def cut_without_tracked_state(patch: Patch) -> type[SimCoordinator]:
    """A cut holds whatever state of the user's objects lies there."""
    patch.setattr(decisions, "may_cut", lambda _book: True)
    return SimCoordinator


def newcomers_keep_their_own_state(patch: Patch) -> type[SimCoordinator]:
    """Who enters a round has the scheduler of who has never stepped."""
    patch.setattr(grants, "may_enter", lambda _book, _incarnation: True)
    patch.setattr(grants, "to_load", lambda _book, _incarnation: None)
    return SimCoordinator


def the_last_who_knows_may_go(patch: Patch) -> type[SimCoordinator]:
    """The loss of the only current state brings nobody back to the cut."""
    patch.setattr(tracking, "must_return", lambda _book, _incarnation: False)
    return SimCoordinator


BUGS = [
    no_token_check,
    acknowledge_before_journal,
    identity_by_trainer,
    late_finish_accepted,
    epoch_over_with_pending_tasks,
    slots_before_queue,
    cut_without_tracked_state,
    newcomers_keep_their_own_state,
    the_last_who_knows_may_go,
]


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_wind_tunnel_catches_a_known_bug(
    bug: Callable[[Patch], type[SimCoordinator]], monkeypatch: Patch
) -> None:
    coordinator = bug(monkeypatch)
    for seed in range(600):
        try:
            run_job(draw_job(seed), coordinator)
        except Violation:
            return
    pytest.fail(f"{bug.__name__} went unnoticed for 600 seeds")
