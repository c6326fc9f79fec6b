"""In what a script's data differ from those that a stage was begun with, in its words.

Pure; it does not import torch.
"""

import re
from collections.abc import Iterator

from paceline.messages.shared import StageSpec

_HASHES = re.compile(r",?(?: indices)? xxh3 [0-9a-f]+")
_NUMBER = re.compile(r" x \d+$")
_CALLS = {"train": "batches"}


def why_not_same_stage(agreed: StageSpec, came: StageSpec) -> str | None:
    """Why a stage is not the one that the job has begun; ``loop`` may differ.

    A task size that follows from the other sizes is not named beside them.
    """
    told = "; ".join(_differing(agreed, came))
    if not told:
        return None
    return (
        f"stage {agreed.stage} was begun otherwise: {told}. All trainers of a job bring "
        f"the same data and sizes, also after --resume: give what it was begun with, or "
        f"begin another job in another folder"
    )


def _differing(agreed: StageSpec, came: StageSpec) -> Iterator[str]:
    if agreed.kind != came.kind:
        was, now = (_CALLS.get(one.kind, one.kind) for one in (agreed, came))
        yield f"session.{was} then, session.{now} now"
    is_cut_alike = (agreed.batch_size, agreed.records) == (came.batch_size, came.records)
    for name in ("batch_size", "task_size", "epochs", "shuffle", "seed"):
        then, today = getattr(agreed, name), getattr(came, name)
        if then != today and (is_cut_alike or name != "task_size"):
            yield f"{name} {then} then, {today} now"
    if (agreed.records, agreed.fingerprint) != (came.records, came.fingerprint):
        then, today = _data(agreed), _data(came)
        is_hash = then == today
        differ = (
            f"{then}, with other values now" if is_hash else f"{then} then, {today} now"
        )
        yield f"the data: {differ}"
    for what, then, today in (
        ("what is tracked", agreed.tracked, came.tracked),
        ("what is averaged", agreed.averaged, came.averaged),
    ):
        if then != today:
            was, now = (", ".join(names) or "nothing" for names in (then, today))
            yield f"{what}: {was} then, {now} now"
    if agreed.rotation != came.rotation:
        yield f"rotation {agreed.rotation or 'none'} then, {came.rotation or 'none'} now"


def _data(spec: StageSpec) -> str:
    """Its data without the hashes, which tell a user nothing."""
    what = _NUMBER.sub("", _HASHES.sub("", spec.fingerprint)).removeprefix("tensors ")
    return f"{spec.records:,} records of {what}"
