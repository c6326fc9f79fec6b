"""One operation walks through so many files and no more: what was won is held.

Figures may only fall. `tests.architecture.walks` says what each of them counts and why it
is the same every time; ``python -m tests.architecture.walks`` prints the walks.
"""

from collections.abc import Callable
from typing import Any

import pytest

from paceline.ids import Window
from paceline.messages.data import Push
from tests.architecture.walks import SRC, Figure, measure, walk

# As measured.
AT_MOST = {
    "push": 34,
    "told push": 54,  # in one process a server is called where it was woken
    "rows": 29,
    "lease": 43,
    "server": 6,
    "follower": 7,
}
SHORTER = 0.9  # of what was measured: then that is measured anew

PUSH = Push(incarnation=1, timeline=0, part=0, number=1, window=Window(0, 0, ()), records=4)


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    return measure(tmp_path_factory.mktemp("walks"))


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_MOST)
def test_a_walk_does_not_become_longer(name: str, figures: dict[str, Figure]) -> None:
    found, most = figures[name], AT_MOST[name]
    assert found.num <= most, f"expected at most {most}, got\n{found}"


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_MOST)
def test_a_walk_that_has_become_shorter_is_held(
    name: str, figures: dict[str, Figure]
) -> None:
    found, most = figures[name].num, AT_MOST[name]
    told = f"well done: set AT_MOST[{name!r}] to {found}, from {most}, so that it stays"
    assert found >= SHORTER * most, told


def planted(path: str, text: str, **known: Any) -> Callable[..., Any]:
    """A function ``act`` that stands in a file which is not there."""
    exec(compile(text, f"{SRC}{path}", "exec"), known)  # our own text
    act: Callable[..., Any] = known["act"]
    return act


def test_a_file_counts_once_and_strangers_do_not() -> None:
    deep = planted("params/deep.py", "def act(): pass")
    twice = planted("trainer/twice.py", "def act(): deep(); deep()", deep=deep)
    found = walk(lambda: sorted([1, 2], key=lambda _: str(twice())))
    assert found == (("trainer/twice.py", "params/deep.py"), ())


def test_inside_the_server_a_call_and_its_return_are_two_changes() -> None:
    inner = planted("server/inner.py", "def act(): pass")
    far = planted("params/far.py", "def act(inner): inner()")
    received = planted(
        "server/door.py",
        "def same(): pass\ndef act(message): same(); inner(); far(inner)",
        inner=inner,
        far=far,
    )
    behind = planted("trainer/after.py", "def act(reply): reply()")
    door, inside = "server/door.py", "server/inner.py"
    assert walk(lambda: received(PUSH)).at_push == (door, inside, door, inside, door)
    assert walk(lambda: received("no push")).at_push == ()
    assert walk(lambda: (received(PUSH), behind(inner))).at_push[-1] == door
