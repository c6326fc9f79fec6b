"""What a script has changed is found: by torch's count, by place, or by the bytes."""

import pytest
import torch
from torch import nn

from paceline.trainer.model.watched_values import (
    EVERY_STEPS,
    FIRST_STEPS,
    WatchedValues,
    contents_of,
)


@pytest.fixture
def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(4))]


@pytest.fixture
def watched(parameters: list[nn.Parameter]) -> WatchedValues:
    return WatchedValues(parameters, ("w", "b"))


def step(watched: WatchedValues, times: int = 1) -> None:
    """The values of a step have landed, and the user's hands are next."""
    for _ in range(times):
        watched.settled()
        watched.stepped()
        watched.rest()


def test_what_torch_counts_is_always_seen(
    watched: WatchedValues, parameters: list[nn.Parameter]
) -> None:
    step(watched, FIRST_STEPS + 2)
    assert watched.changed() == []
    with torch.no_grad():
        parameters[1].mul_(2.0)
    assert watched.changed() == [1]
    watched.settled()
    assert watched.changed() == []


def test_values_in_another_place_are_seen(
    watched: WatchedValues, parameters: list[nn.Parameter]
) -> None:
    step(watched, FIRST_STEPS + 2)
    parameters[0].data = torch.zeros(3, 2)
    assert watched.changed() == [0]


def test_what_is_only_moved_or_only_counted_is_no_change_where_bytes_are_known(
    watched: WatchedValues, parameters: list[nn.Parameter]
) -> None:
    step(watched)
    parameters[0].data = parameters[0].data.clone()
    with torch.no_grad():
        parameters[1].mul_(2.0).div_(2.0)
    assert watched.changed() == []
    step(watched, FIRST_STEPS)
    assert watched.changed() == []


def test_what_is_done_to_data_is_seen_in_the_first_steps_and_now_and_then(
    watched: WatchedValues, parameters: list[nn.Parameter]
) -> None:
    seen = []
    for number in range(1, 2 * EVERY_STEPS + 1):
        step(watched)
        if watched.changed():
            seen.append(number)
        if number in {2, 30, EVERY_STEPS}:
            before = parameters[0].data.clone()
            parameters[0].data.add_(1.0)
            seen += [number] * bool(watched.changed())
            parameters[0].data.copy_(before)
    assert seen == [2, 30, EVERY_STEPS], "what was seen once is looked for in every step"


def test_what_is_done_to_data_out_of_sight_is_not_seen(
    watched: WatchedValues, parameters: list[nn.Parameter]
) -> None:
    step(watched, FIRST_STEPS + 2)
    parameters[0].data.add_(1.0)
    assert watched.changed() == []


def test_a_loops_end_is_looked_at(
    watched: WatchedValues, parameters: list[nn.Parameter]
) -> None:
    step(watched, FIRST_STEPS + 2)
    watched.rest(is_end=True)
    parameters[1].data.add_(1.0)
    assert watched.changed() == [1]


def test_a_new_loop_is_looked_at_from_its_beginning(
    watched: WatchedValues, parameters: list[nn.Parameter]
) -> None:
    step(watched, FIRST_STEPS + 2)
    watched.begin()
    step(watched)
    parameters[1].data.add_(1.0)
    assert watched.changed() == [1]


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str
)
def test_contents_are_of_the_values_in_their_order(dtype: torch.dtype) -> None:
    values = torch.arange(12).to(dtype).view(3, 4)
    same = values.t().contiguous().t()
    assert contents_of(values) == contents_of(values.clone()) == contents_of(same)
    assert contents_of(values) != contents_of(values.flip(1))
    assert contents_of(values) != contents_of(-values)


def test_nothing_to_watch_is_nothing_changed() -> None:
    watched = WatchedValues((), ())
    watched.rest(is_end=True)
    assert watched.changed() == []
    assert contents_of(torch.empty(0)) == contents_of(torch.empty(0, 3))
