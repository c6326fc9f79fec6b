"""The benchmark of a coordinator's backlog runs, and measures what it says."""

import pytest

from benchmarks.coordinator_backlog import main


@pytest.mark.slow
def test_leases_are_granted_and_what_they_cost_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["", "--trainers", "8", "--rounds", "2", "--times", "1"]) == 0
    assert "leases a transaction" in capsys.readouterr().out
