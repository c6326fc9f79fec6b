"""Records say how they were made; tables can be read."""

from benchmarks.record import circumstances, spread, table


def test_a_spread_has_median_and_ends() -> None:
    assert spread([3.0, 1.0, 2.0, 9.0]) == (2.5, 1.0, 9.0, 4)


def test_circumstances_hold_the_command_that_makes_the_number_again() -> None:
    found = circumstances(["benchmarks/ctr.py", "--times", "3"])
    assert found["command"] == "python -m benchmarks.ctr --times 3"
    assert {"commit", "date", "machine", "load_1m", "versions"} <= set(found)


def test_a_table_puts_names_left_and_numbers_right() -> None:
    assert table([["a", "1"], ["long", "100"]]) == "a       1\nlong  100"
