"""A script that brings other data than its stage was begun with is told what differs."""

from typing import Any

import pytest
from msgspec.structs import replace

from paceline.data.same_stage import why_not_same_stage
from paceline.messages.shared import StageSpec

DATA = "tensors (float32[4]) x 1920, xxh3 0a1b"
AGREED = StageSpec(0, 1920, 16, 32, 2, True, 0, DATA)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"batch_size": 32, "task_size": 64}, "batch_size 16 then, 32 now"),
        ({"task_size": 64}, "task_size 32 then, 64 now"),
        ({"epochs": 3, "seed": 1}, "epochs 2 then, 3 now; seed 0 then, 1 now"),
        (
            {
                "records": 96,
                "task_size": 16,
                "fingerprint": "tensors (int64[]) x 96, xxh3 f",
            },
            "the data: 1,920 records of (float32[4]) then, 96 records of (int64[]) now",
        ),
        (
            {"fingerprint": DATA.replace("0a1b", "0a1c")},
            "the data: 1,920 records of (float32[4]), with other values now",
        ),
        ({"tracked": ("ema",)}, "what is tracked: nothing then, ema now"),
        ({"kind": "evaluate"}, "session.batches then, session.evaluate now"),
    ],
)
def test_only_what_differs_is_named(changed: dict[str, Any], told: str) -> None:
    text = why_not_same_stage(AGREED, replace(AGREED, **changed))
    assert text is not None
    assert text.startswith(f"stage 0 was begun otherwise: {told}. All trainers")
    assert "another folder" in text


def test_every_field_counts_but_the_loops_before() -> None:
    assert why_not_same_stage(AGREED, replace(AGREED, loop=3)) is None
    named = {"stage", "loop"}  # the stage is the one that is asked for
    others: dict[str, Any] = {"kind": "predict", "rotation": "one", "shuffle": False}
    for field in set(StageSpec.__struct_fields__) - named:
        other = others.get(field, "other" if field == "fingerprint" else 7)
        if field in {"tracked", "averaged"}:
            other = ("it",)
        assert why_not_same_stage(AGREED, replace(AGREED, **{field: other})), field
