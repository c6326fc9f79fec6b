"""A script that is asked to end: told, waited for, then given up or ended at once."""

from paceline.launch.parting import TOLD, Parting
from paceline.launch.supervise.supervision import LEAVE_S


def test_who_asks_for_nothing_gets_nothing() -> None:
    assert Parting().passed(1e6, is_held=True, was_told=False) is None


def test_a_script_within_a_call_is_waited_for_and_then_given_up_once() -> None:
    parting = Parting()
    assert parting.asked(100.0) == "ask to leave"
    assert parting.passed(100.0, is_held=True, was_told=False) is None
    assert parting.passed(99.9 + LEAVE_S, is_held=True, was_told=False) is None
    assert parting.passed(100.0 + LEAVE_S, is_held=True, was_told=False) == "give up"
    assert parting.passed(101.0 + LEAVE_S, is_held=True, was_told=False) is None


def test_on_a_full_disk_a_call_is_given_up_at_once_and_other_code_is_not() -> None:
    parting = Parting()
    assert parting.passed(99.0, is_held=True, was_told=False, is_full=True) is None
    parting.asked(100.0)
    full = {"was_told": True, "is_full": True}
    assert parting.passed(100.0, is_held=False, **full) is None
    assert parting.passed(100.5, is_held=True, **full) == "give up"


def test_a_script_that_is_over_and_waits_for_space_is_ended_at_once() -> None:
    assert Parting().asked(100.0, is_stuck=True) == "end now"


def test_a_script_outside_of_calls_is_told_where_it_is() -> None:
    parting = Parting()
    parting.asked(100.0)
    assert parting.passed(100.5, is_held=False, was_told=False) == "knock"


def test_a_script_that_knows_is_not_hurried_behind_its_loop() -> None:
    parting = Parting()
    parting.asked(100.0)
    assert parting.passed(1e6, is_held=False, was_told=True) is None


def test_asked_again_all_ends_at_once() -> None:
    parting = Parting()
    parting.asked(100.0)
    assert parting.asked(100.5) == "end now"


def test_requests_that_come_together_are_one() -> None:
    parting = Parting()
    assert parting.asked(100.0) == "ask to leave"
    assert parting.asked(100.01) is None
    assert parting.asked(101.0) == "end now"


def test_what_is_said_names_both_bounds_and_the_way_to_end_at_once() -> None:
    assert "within 15 s" in TOLD
    assert "within 60 s" in TOLD
    assert "once more" in TOLD
