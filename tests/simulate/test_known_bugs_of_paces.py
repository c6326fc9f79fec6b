"""Bugs around a change of pace, put back one at a time: each is caught."""

from collections.abc import Callable

import pytest

from paceline.coordinator.decisions import pace_changes as repacing
from paceline.errors import Refused
from paceline.messages.server import TakePaces
from paceline.messages.shared import Contribution
from paceline.server.decisions.part import Part
from paceline.server.decisions.state import ServerState
from paceline.server.decisions.verdicts import Prepared
from tests.simulate.checks import Violation
from tests.simulate.coordinator import SimCoordinator
from tests.simulate.job import draw_job, run_job

Patch = pytest.MonkeyPatch


def rounds_are_left_behind(patch: Patch) -> type[SimCoordinator]:
    """The pace changes while a server has yet to apply a committed round."""
    patch.setattr(repacing, "_is_all_applied", lambda *_: True)
    return SimCoordinator


def servers_keep_their_pace(patch: Patch) -> type[SimCoordinator]:
    """A server enters the timeline, and prepares as before."""

    def end_paces(self: ServerState, order: TakePaces) -> None:
        assert order.plans
        self.is_ready = True

    patch.setattr(ServerState, "end_paces", end_paces)
    return SimCoordinator


def rounds_take_no_duplicates(patch: Patch) -> type[SimCoordinator]:
    """A round asks every server for every push, as if marks had always been level."""

    def take_prepared(
        _self: ServerState, part: Part, contribution: Contribution
    ) -> Prepared | None:
        if not part.slots:
            return None
        assert contribution.incarnation in part.prepared, f"lacks {contribution}"
        return part.prepared.pop(contribution.incarnation)

    patch.setattr(ServerState, "_take_prepared", take_prepared)
    return SimCoordinator


BUGS = {  # {bug: a seed near one that shows it}
    rounds_are_left_behind: 95,
    servers_keep_their_pace: 35,
    rounds_take_no_duplicates: 59,
}


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_wind_tunnel_catches_a_bug_around_a_change_of_pace(
    bug: Callable[[Patch], type[SimCoordinator]], monkeypatch: Patch
) -> None:
    coordinator = bug(monkeypatch)
    for seed in range(BUGS[bug], BUGS[bug] + 800, 4):  # those that draw changes
        try:
            run_job(draw_job(seed), coordinator)
        except (Violation, Refused):
            return
    pytest.fail(f"{bug.__name__} went unnoticed for 200 seeds")
