"""Who is looked at for silence, and when nobody needs to be."""

from paceline.coordinator.ledgers.members import GRACE_S, Members

TIMEOUT_S = 10.0
LIVE = {1: "trainer-0", 2: "trainer-1"}


def members() -> Members:
    """Two that were heard of at 0, and looked at."""
    found = Members(TIMEOUT_S, 0.0)
    for incarnation in LIVE:
        found.heard(incarnation, 0.0)
    assert found.losses(LIVE, 0.0) == []
    return found


def test_nobody_needs_to_be_looked_at_before_the_first_can_have_been_silent() -> None:
    found = members()
    assert found.are_quiet(TIMEOUT_S - 0.1)
    assert not found.are_quiet(TIMEOUT_S)
    assert [loss.incarnation for loss in found.losses(LIVE, TIMEOUT_S)] == [1, 2]


def test_who_was_heard_of_since_has_as_long_again() -> None:
    found = members()
    found.heard(1, 4.0)
    found.heard(2, 6.0)
    assert found.losses(LIVE, TIMEOUT_S) == []
    assert found.are_quiet(13.9)
    assert [loss.incarnation for loss in found.losses(LIVE, 14.0)] == [1]


def test_a_connection_that_closes_is_looked_at_after_its_grace() -> None:
    found = members()
    found.closed(2, 1.0)
    assert found.are_quiet(1.0 + GRACE_S / 2)
    lost = found.losses(LIVE, 1.0 + GRACE_S)
    assert [(loss.incarnation, loss.kind) for loss in lost] == [(2, "disconnected")]


def test_who_could_not_be_heard_is_excused_for_as_long() -> None:
    found = members()
    found.excuse(5.0)
    assert found.losses(LIVE, TIMEOUT_S) == []
    assert [one.incarnation for one in found.losses(LIVE, TIMEOUT_S + 5.0)] == [1, 2]
