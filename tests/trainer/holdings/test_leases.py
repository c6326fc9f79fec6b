"""How far a trainer is with what it was given."""

from paceline.ids import Span, TaskKey, Window
from paceline.messages.shared import Lease, StageSpec
from paceline.trainer.holdings.leases import Leases, LeaseWork

STAGE = StageSpec(0, 8, 2, 8, 1, False, 0, "data")  # one task of 4 batches
KEY = TaskKey(0, 0, 0)
PARTS = (0, 1)


def window(first: int, last: int) -> Window:
    return Window(0, 0, (Span(0, first, last),))


def advanced(leases: Leases, part: int, done: Window) -> tuple[int, ...]:
    """As far as the lease is in every part, with one more window of a part."""
    acked = leases.acked_with(part, done, PARTS)
    leases.advance(part, done)
    return acked


def one_lease(first: int = 0) -> Leases:
    leases = Leases()
    leases.add(LeaseWork(Lease(7, KEY, first, (), {}), STAGE))
    return leases


def test_a_task_is_as_far_as_the_part_that_lags_most() -> None:
    leases = one_lease()
    assert advanced(leases, 0, window(0, 2)) == (-1,)
    assert advanced(leases, 1, window(0, 1)) == (1,)
    assert advanced(leases, 1, window(2, 3)) == (2,)


def test_a_lease_is_held_until_it_is_complete_in_every_part() -> None:
    leases = one_lease(first=1)
    assert advanced(leases, 0, window(1, 3)) == (0,)
    assert leases.drop_complete(PARTS) == 0
    assert advanced(leases, 1, window(1, 3)) == (3,)
    assert leases.drop_complete(PARTS) == 1
    assert not leases
