"""Records say how they were made; tables can be read."""

import psutil
import pytest

from benchmarks.harness.record import circumstances, spread, table


def test_a_spread_has_median_and_ends() -> None:
    assert spread([3.0, 1.0, 2.0, 9.0]) == (2.5, 1.0, 9.0, 4)


@pytest.mark.parametrize(("percent", "is_said"), [(3.0, False), (80.0, True)])
def test_a_busy_machine_is_told_and_kept(
    percent: float,
    is_said: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(psutil, "cpu_percent", lambda _: percent)
    assert circumstances(["ctr.py"])["busy_share"] == percent / 100
    assert ("80% of the machine" in capsys.readouterr().err) is is_said


def test_circumstances_hold_the_command_that_makes_the_number_again() -> None:
    found = circumstances(["ctr", "--times", "3"])
    assert found["command"] == "python -m benchmarks ctr --times 3"
    assert {"commit", "date", "machine", "busy_share", "versions"} <= set(found)


def test_a_table_puts_names_left_and_numbers_right() -> None:
    assert table([["a", "1"], ["long", "100"]]) == "a       1\nlong  100"
