"""Placement is balanced, even for every size of slot, and always the same."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.errors import UsageError
from paceline.params.blocks import num_row_slots, place_slots

# A loaded machine is slow to draw and to run examples; neither is a failure.
on_any_machine = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)

slot_sizes = st.dictionaries(st.integers(0, 99), st.integers(0, 1000), max_size=30)
server_lists = st.integers(1, 5).map(lambda n: [f"server-{i}" for i in range(n)])


@on_any_machine
@given(slot_sizes, server_lists)
def test_loads_differ_by_at_most_the_largest_slot(
    sizes: dict[int, int], servers: list[str]
) -> None:
    placement = place_slots(sizes, servers)
    assert list(placement) == sorted(sizes)
    loads = dict.fromkeys(servers, 0)
    for slot, server in placement.items():
        loads[server] += sizes[slot]
    assert max(loads.values()) - min(loads.values()) <= max(sizes.values(), default=0)


@on_any_machine
@given(slot_sizes, server_lists, st.integers(0, 5000))
def test_every_server_gets_its_share_of_equal_slots(
    sizes: dict[int, int], servers: list[str], load: int
) -> None:
    placement = place_slots(sizes, servers, {servers[0]: load})
    for size in set(sizes.values()):
        held = Counter(placement[slot] for slot in sizes if sizes[slot] == size)
        counts = [held[server] for server in servers]
        assert max(counts) - min(counts) <= 1


def test_the_lightest_server_is_chosen_and_ties_go_by_order() -> None:
    assert place_slots({5: 9, 6: 9, 7: 9}, ["b", "a"]) == {5: "b", 6: "a", 7: "b"}
    assert place_slots({5: 9}, ["b", "a"], {"b": 1}) == {5: "a"}
    assert place_slots({1: 2, 2: 10, 3: 7}, ["a", "b"]) == {1: "b", 2: "a", 3: "b"}


def test_row_slots_spread_over_all_servers() -> None:
    for servers in (1, 2, 3, 4, 7, 20):
        names = [f"server-{i}" for i in range(servers)]
        count = num_row_slots(servers)
        held = Counter(place_slots(dict.fromkeys(range(count), 1), names).values())
        assert count >= 16
        assert min(held[name] for name in names) >= count // servers >= 4


def test_placing_without_a_server_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one server to place 1 slots"):
        place_slots({0: 1}, [])
