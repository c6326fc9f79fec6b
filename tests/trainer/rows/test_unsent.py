"""What a batch pushes is a dictionary of values, however many pushes it makes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import Async
from paceline.params.rows import id_map
from paceline.trainer.rows.replica import Written
from paceline.trainer.rows.table_rows import Unsent
from tests.trainer.fake_job import FakeJob

RULES: dict[str, Any] = {"add": np.add, "max": np.maximum, "replace": lambda _, b: b}
pushes = st.lists(st.lists(st.integers(-3, 9), unique=True), min_size=1, max_size=6)


@given(pushed=pushes, rule=st.sampled_from(sorted(RULES)), reads=st.booleans())
def test_it_is_a_dictionary(pushed: list[list[int]], rule: str, reads: bool) -> None:
    known: dict[int, np.ndarray] = {}
    unsent: Unsent | None = None
    for seed, some in enumerate(pushed):
        ids = np.array(some, np.int64)
        values = np.random.default_rng(seed).normal(size=(len(ids), 2))
        kept = values.copy()
        if unsent is None:
            unsent = Unsent("t", Written(ids, values, rule))
        else:
            unsent.add(ids, values)
        for at, value in zip(some, kept, strict=True):
            known[at] = RULES[rule](known[at], value) if at in known else value
        if reads:
            rows = np.ones((4, 2))
            unsent.combine_with(np.array([2, -3, 50, 7]), rows)
            for at, row in zip([2, -3, 50, 7], rows, strict=True):
                wanted = RULES[rule](np.ones(2), known[at]) if at in known else np.ones(2)
                assert (row == wanted).all()
        assert (values == kept).all()
    assert unsent is not None
    found = unsent.written()
    assert dict(zip(found.ids.tolist(), found.values.tolist(), strict=True)) == {
        at: value.tolist() for at, value in known.items()
    }


def test_a_thousand_small_pushes_and_pulls_cost_what_their_ids_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up: list[int] = []
    for name in ("find", "find_or_insert"):
        plain = getattr(id_map.compiled.kernels, name)

        def counted(cells: Any, ids: Any, *rest: Any, plain: Any = plain) -> Any:
            looked_up.append(len(ids))
            return plain(cells, ids, *rest)

        monkeypatch.setattr(id_map.compiled.kernels, name, counted)
    session = FakeJob(servers=2, pace=Async()).session()
    table = session.table("t", (None,))
    for _ in session.batches(np.zeros((2, 1), np.float32), 2):
        for number in range(1000):
            table.push([number], [1])
            assert table.pull([number]).shape == (1,)
        [unsent] = table._rows._fresh
        assert unsent.written().ids.tolist() == list(range(1000))
    assert len(looked_up) < 10_000
    assert sum(looked_up) < 20_000, "a push or a pull has looked at what others brought"
    session.close()
