"""What happens next is what comes first, however far ahead it was written down."""

from hypothesis import given
from hypothesis import strategies as st

from paceline.forecast.agenda import Agenda

LONG_S = 1e6
moments = st.one_of(st.floats(0, 2), st.floats(0, LONG_S), st.sampled_from([0.0, 0.5, 1.0]))


@given(st.lists(moments, max_size=40), st.data())
def test_what_happens_comes_by_its_moment_and_then_as_it_was_written(
    begin: list[float], data: st.DataObject
) -> None:
    agenda, found, written = Agenda(), list[tuple[float, int]](), list[float]()

    def happen(moment_s: float, number: int) -> None:
        assert agenda.now_s == moment_s
        found.append((moment_s, number))
        if len(written) < 80 and data.draw(st.booleans()):
            write(agenda.now_s + data.draw(st.sampled_from([0.0, 1e-4, 0.5])))

    def write(moment_s: float) -> None:
        agenda.at(moment_s, happen, moment_s, len(written))
        written.append(moment_s)

    for moment_s in begin:
        write(moment_s)
    agenda.run(2 * LONG_S)
    assert found == sorted((moment_s, number) for number, moment_s in enumerate(written))


def test_what_was_to_happen_before_now_happens_now() -> None:
    agenda, found = Agenda(), list[float]()
    agenda.at(2.0, agenda.at, 1.0, lambda: found.append(agenda.now_s))
    agenda.run(LONG_S)
    assert found == [2.0]


def test_nothing_happens_behind_the_end() -> None:
    agenda, found = Agenda(), list[float]()
    for moment_s in (1.0, 2.0, 3.0):
        agenda.at(moment_s, lambda: found.append(agenda.now_s))
    agenda.at(2.0, agenda.end)
    assert agenda.run(LONG_S)
    assert found == [1.0, 2.0]


def test_what_an_end_has_put_off_happens_in_the_next_run() -> None:
    agenda, found = Agenda(), list[float]()
    for moment_s in (1.0, 2.0, 3.0):
        agenda.at(moment_s, lambda: found.append(agenda.now_s))
    agenda.at(1.0, agenda.end)
    agenda.run(LONG_S)
    assert not agenda.run(2.5)
    assert found == [1.0, 2.0]


def test_what_is_too_far_ahead_does_not_happen_yet() -> None:
    agenda, found = Agenda(), list[float]()
    agenda.at(5.0, lambda: found.append(agenda.now_s))
    assert not agenda.run(4.0)
    assert not found
    agenda.at(10.0, agenda.end)
    assert agenda.run(10.0)
    assert found == [5.0]
