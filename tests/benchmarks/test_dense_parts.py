"""Every way to do a part of a step comes to the same before it is timed."""

import pytest

from benchmarks import dense_parts


@pytest.mark.slow
def test_candidates_are_checked_and_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_parts, "TIMES", 2)
    gradients = dense_parts.compare_gradients(batch=2)
    rounds = dense_parts.compare_rounds()
    assert len(gradients) == 4
    assert len(rounds) == 3
    assert all(len(taken.seconds) == 2 for taken in (*gradients, *rounds))
    assert str(rounds[1]).split()[:2] == ["two", "threads"]
