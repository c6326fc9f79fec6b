"""What a script has changed is found: by torch's count, by place, or by the bytes."""

import pytest
import torch
from torch import nn

from paceline.trainer.model.watched import (
    EVERY_STEPS,
    FEW,
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


def test_one_value_that_is_changed_in_data_out_of_sight_is_not_seen() -> None:
    many = nn.Parameter(torch.ones(FEW * 100 + 1))
    watched = WatchedValues([many], ("w",))
    step(watched, FIRST_STEPS + 2)
    many.data[1] += 1.0
    assert watched.changed() == []


@pytest.mark.parametrize("steps", range(FIRST_STEPS, FIRST_STEPS + 8))
def test_what_is_done_to_data_of_all_parameters_is_seen_in_every_step(
    steps: int, watched: WatchedValues, parameters: list[nn.Parameter]
) -> None:
    step(watched, steps)
    assert watched.changed() == []
    for one in parameters:
        one.data.mul_(0.3)
    assert watched.changed() == [0, 1]


def test_data_of_one_parameter_is_seen_in_some_of_the_steps_at_regular_intervals(
    watched: WatchedValues, parameters: list[nn.Parameter]
) -> None:
    num_seen = 0
    for number in range(1, 21):
        watched.begin()  # nothing was found so far
        step(watched, FIRST_STEPS + 2 * number)
        parameters[0].data.mul_(0.3)
        num_seen += bool(watched.changed())
    assert 0 < num_seen < 20


def test_what_may_have_been_overlooked_before_is_said(
    watched: WatchedValues, parameters: list[nn.Parameter]
) -> None:
    step(watched)
    parameters[1].data.mul_(0.3)
    assert watched.changed() == [1]
    assert watched.overlooked is None, "every step before was looked at"
    for number in range(2):
        watched.begin()
        step(watched, 2 * EVERY_STEPS - 1)
        watched.settled()
        watched.stepped()
        watched.rest(is_end=not number)
        parameters[1].data.mul_(0.3)
        assert watched.changed() == [1]
        assert watched.overlooked == (None, "b")[number], "at a loop's end nobody can tell"
    watched.begin()
    assert watched.overlooked is None


def test_memory_on_which_a_parameter_does_not_lie_any_more_is_not_looked_at() -> None:
    one = nn.Parameter(torch.ones(4))
    watched = WatchedValues([one], ("w",))
    step(watched, FIRST_STEPS + 2)
    before = one.data
    one.data = torch.ones(4)
    watched.settled()
    watched.rest()
    before.zero_()
    assert watched.changed() == []
    one.data.zero_()
    assert watched.changed() == [0]


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


def test_a_whole_look_does_not_swallow_what_few_values_have_seen(
    watched: WatchedValues, parameters: list[nn.Parameter]
) -> None:
    step(watched, FIRST_STEPS + 2)
    for parameter in parameters:
        parameter.data.mul_(2.0)
    watched.rest(is_end=True)  # the step of another part
    assert watched.changed() == [0, 1]
