"""Virtual time loses nothing."""

from tests.simulate.faults import QUIET
from tests.simulate.world import World


def test_what_lies_beyond_a_stop_happens_after_it() -> None:
    world = World(0, QUIET)
    happened: list[str] = []
    world.at(1.0, lambda: happened.append("before"))
    world.at(3.0, lambda: happened.append("after"))
    assert not world.run(2.0, lambda: False)
    assert happened == ["before"]
    world.run(4.0, lambda: False)
    assert happened == ["before", "after"]
