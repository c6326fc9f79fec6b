"""Bugs around a damaged cut, put back one at a time: each is caught."""

from collections.abc import Callable

import msgspec
import pytest

from paceline.coordinator import state
from paceline.coordinator.decisions import consequences as decisions
from paceline.coordinator.decisions.checkpoints import Stored
from paceline.coordinator.ledgers.book import Book
from paceline.ids import cut_folder
from tests.simulate.checks import Violation
from tests.simulate.coordinator import SimCoordinator
from tests.simulate.disk import Disk, SimShare
from tests.simulate.job import draw_job, run_job

Patch = pytest.MonkeyPatch


def damage_is_waited_out(patch: Patch) -> type[SimCoordinator]:
    """The coordinator does not hear that a cut cannot be read."""
    patch.setattr(decisions, "look_at_unreadable", lambda *_: None)
    return SimCoordinator


def queue_of_the_damaged_cut(patch: Patch) -> type[SimCoordinator]:
    """Servers return to the older cut, the queue to that of the damaged one."""
    return_all = state.return_further

    def return_servers(book: Book, folder: str, found: Stored, error: str | None) -> None:
        cut = book.durable.cut
        assert cut is not None
        assert found.cut is not None
        newer = msgspec.structs.replace(found.cut, queue=cut.queue)
        return_all(book, folder, found._replace(cut=newer), error)

    patch.setattr(state, "return_further", return_servers)
    return SimCoordinator


def each_server_falls_back_alone(patch: Patch) -> type[SimCoordinator]:
    """Who cannot read its share of a cut takes its share of an older one."""
    read, is_damaged = Disk.read, Disk.is_damaged

    def read_any(self: Disk, folder: str, server: str) -> SimShare | None:
        if not is_damaged(self, folder, server):
            return read(self, folder, server)
        cut, timeline = folder.removeprefix("cut-").split("-t")
        older = self.newest_whole(int(cut), int(timeline)).cut
        return read(self, cut_folder(older.cut, older.timeline), server)

    patch.setattr(Disk, "read", read_any)
    patch.setattr(Disk, "is_damaged", lambda *_: False)
    return SimCoordinator


BUGS = [damage_is_waited_out, queue_of_the_damaged_cut, each_server_falls_back_alone]


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_wind_tunnel_catches_a_bug_around_a_damaged_cut(
    bug: Callable[[Patch], type[SimCoordinator]], monkeypatch: Patch
) -> None:
    coordinator = bug(monkeypatch)
    for seed in range(600):
        try:
            run_job(draw_job(seed), coordinator)
        except Violation:
            return
    pytest.fail(f"{bug.__name__} went unnoticed for 600 seeds")
