"""The user's own objects: named, saved together, loaded in place."""

import pytest
import torch

from paceline.errors import UsageError
from paceline.trainer.engine.tracked_objects import Settings, Tracker


class Counting:
    """Anything with a state."""

    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = state["count"]


def test_all_objects_are_saved_and_loaded_together() -> None:
    tracker, one, other = Tracker(), Counting(), Counting()
    tracker.add("one", one)
    tracker.add("other", other)
    one.count, other.count = 1, 2
    data = tracker.encode()
    one.count = other.count = 9
    tracker.load(data)
    assert (one.count, other.count) == (1, 2)


def test_to_begin_again_is_to_be_as_when_the_last_loop_began() -> None:
    tracker, counting = Tracker(), Counting()
    tracker.add("counting", counting)
    counting.count = 5
    tracker.begin()
    counting.count = 6
    tracker.begin()
    counting.count = 7
    tracker.begin_again()
    assert counting.count == 6


def test_what_is_implied_is_tracked_with_others_only() -> None:
    tracker, implied = Tracker(), Counting()
    tracker.imply("settings", implied)
    assert tracker.names == ()
    tracker.add("counting", Counting())
    assert tracker.names == ("counting", "settings")
    data = tracker.encode()
    implied.count = 3
    tracker.load(data)
    assert implied.count == 0


def test_settings_of_groups_are_loaded_in_place() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    settings = Settings(optimizer.param_groups)
    kept = settings.state_dict()
    optimizer.param_groups[0]["lr"] = 0.1
    settings.load_state_dict(kept)
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert len(optimizer.param_groups[0]["params"]) == 1


def test_names_are_sorted_so_that_all_trainers_say_the_same() -> None:
    tracker = Tracker()
    for name in ("b", "a"):
        tracker.add(name, Counting())
    assert tracker.names == ("a", "b")


def test_a_name_that_is_taken_and_an_object_without_a_state_are_refused() -> None:
    tracker = Tracker()
    tracker.add("a", Counting())
    with pytest.raises(UsageError, match="'a' is tracked already"):
        tracker.add("a", Counting())
    with pytest.raises(UsageError, match=r"expected b to have state_dict .* got int"):
        tracker.add("b", 3)
