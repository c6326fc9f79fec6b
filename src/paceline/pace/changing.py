"""A part under another pace: what it becomes, and why it cannot.

Between paces by which servers step, nothing changes but the pace. Where trainers step by
themselves, servers take an outer step with SGD; so with the pace the optimizer of the
servers changes, and the one that scripts have given goes to the trainers, or comes back.

Pure.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from paceline.config import Adam, Auto, Combine, FirstAdam, Pace
from paceline.messages.shared import OptimizerSpec, PartSpec, TableSpec
from paceline.pace.auto import steps_of
from paceline.pace.policy import (
    outer_kind,
    outer_step,
    steps_locally,
    takes_turns,
    why_not_beside,
)
from paceline.pace.tables import is_table, why_not_for_table, why_not_locked
from paceline.params.guarding import why_not_guarded, why_not_hogwild

_MOST_TOLD = 3  # differences between two parts


def first_pace(spec: PartSpec) -> Pace:
    """The pace that scripts share a part with."""
    return spec.first_pace or spec.auto or spec.pace


def begun(said: Pace) -> tuple[Pace, Auto | None]:
    """The pace that a part begins with, and what is to look after it."""
    return (steps_of(said)[0], said) if isinstance(said, Auto) else (said, None)


def with_pace(spec: PartSpec, pace: Pace, *, is_auto: bool = False) -> PartSpec:
    """A part under another pace; `why_not_change` has no reason against it.

    ``is_auto``: it is a step of the `Auto` that looks after the part.
    """
    if isinstance(pace, Auto):
        steps = steps_of(pace)
        own = spec.pace if spec.pace in steps else steps[0]
        return msgspec.structs.replace(with_pace(spec, own), auto=pace)
    was_local, is_local = steps_locally(spec.pace), steps_locally(pace)
    optimizer, inner = spec.optimizer, spec.inner
    if is_local and optimizer is not None:
        inner = inner if was_local else optimizer
        optimizer = outer_optimizer(pace, len(optimizer.groups))
    elif was_local:
        optimizer, inner = inner, None
    return msgspec.structs.replace(
        spec,
        pace=pace,
        optimizer=optimizer,
        inner=inner,
        first_pace=first_pace(spec),
        auto=spec.auto if is_auto else None,
    )


def has_pace(spec: PartSpec, pace: Pace) -> bool:
    """Whether a part is at a pace already, or looked after by that `Auto`."""
    if isinstance(pace, Auto):
        return spec.auto == pace
    return spec.pace == pace and spec.auto is None


def outer_optimizer(pace: Pace, num_groups: int) -> OptimizerSpec:
    """What servers step with on deltas, for as many parameter groups as trainers have."""
    return OptimizerSpec(outer_kind(pace), (outer_step(pace),) * num_groups)


def why_not_change(specs: Iterable[PartSpec], paces: dict[int, Pace]) -> str | None:
    """Why parts among all ``specs`` cannot have these paces, {part: pace}; else None."""
    known = {spec.part: spec for spec in specs}
    for part, pace in sorted(paces.items()):
        reason = _why_not(known[part], pace)
        if reason is not None:
            return f"part {part} cannot go from {known[part].pace} to {pace}: {reason}"
        known[part] = with_pace(known[part], pace)
    return why_not_beside(spec.pace for spec in known.values())


def _needs_rights(spec: PartSpec) -> bool:
    """Whether rows of a table change under locks, versions or leases alone."""
    own = [one.optimizer for one in spec.tables]
    return any(isinstance(one, Combine) and one.rule == "replace" for one in own)


def _why_not(spec: PartSpec, pace: Pace) -> str | None:
    if is_table(spec):
        reason = why_not_for_table(pace)
        return reason or (why_not_locked(pace) if _needs_rights(spec) else None)
    pace = with_pace(spec, pace).pace if isinstance(pace, Auto) else pace
    was_local, is_local = steps_locally(spec.pace), steps_locally(pace)
    if spec.strategy:
        return (
            f"the script marches by {spec.strategy}, on top of {spec.pace}: change it there"
        )
    if takes_turns(spec.pace) or takes_turns(pace):
        return "what is shared in fragments, or with an overlap, begins and ends so"
    if was_local and is_local and outer_kind(spec.pace) != outer_kind(pace):
        return "servers would take outer steps of another kind: say so when the job begins"
    if was_local and not is_local and spec.inner is None:
        return (
            "trainers step with an optimizer that no server knows, or that moves only some "
            "of the parameters"
        )
    if is_local and not was_local:
        if spec.tables:
            return (
                f"the rows of {spec.tables[0].name!r} cannot be stepped by trainers: share "
                f"embeddings as a part of their own"
            )
        sparse = [p.names[0] for p in spec.parameters if p.has_sparse_gradients]
        if sparse:
            return f"deltas are dense, and {sparse[0]!r} has sparse gradients"
    changed = with_pace(spec, pace)
    return why_not_hogwild(changed) or why_not_guarded(changed)


def why_not_same(agreed: PartSpec, came: PartSpec) -> str | None:
    """Why a script shares another part than others have, whatever pace that has by now.

    Hyper-parameters may differ: they travel with every push. Rows go on with the optimizer
    that they have, if the script names none.
    """
    is_same = (
        agreed.parameters == came.parameters
        and _are_same_tables(agreed.tables, came.tables)
        and first_pace(agreed) == first_pace(came)
        and agreed.strategy == came.strategy
        and _kind(agreed) == _kind(came)
    )
    if is_same:
        return why_frozen_differ(agreed, came)
    differing = list(_differing_parts(agreed, came))
    told = "; ".join(differing[:_MOST_TOLD])
    more = len(differing) - _MOST_TOLD
    return (
        f"part {came.part} was first shared otherwise: {told}"
        f"{f'; and {more} more' if more > 0 else ''}. All trainers of a job share the same "
        f"model, optimizer and pace, also after --resume: give it what it began with, or "
        f"begin another job in another folder"
    )


def _differing_parts(agreed: PartSpec, came: PartSpec) -> Iterator[str]:
    """What a script shares otherwise, each in words; at least one, if they differ."""
    was_parameter = {one.names[0]: one for one in agreed.parameters}
    yield from _differing(
        "parameter", was_parameter, {one.names[0]: one for one in came.parameters}
    )
    was_table = {one.name: one for one in agreed.tables}
    is_table = {
        one.name: _going_on(one, was_table.get(one.name, one)) for one in came.tables
    }
    yield from _differing("rows of", was_table, is_table)
    for what, then, now in (
        ("pace", first_pace(agreed), first_pace(came)),
        ("strategy", agreed.strategy or None, came.strategy or None),
        ("optimizer", _kind(agreed), _kind(came)),
    ):
        if then != now:
            yield f"{what} {then or 'none'} then, {now or 'none'} now"


def _differing(
    what: str, was: Mapping[str, msgspec.Struct], now: Mapping[str, msgspec.Struct]
) -> Iterator[str]:
    for name in {**was, **now}:
        if name not in now:
            yield f"{what} {name!r} then, and not now"
        elif name not in was:
            yield f"{what} {name!r} now, and not then"
        else:
            for field in was[name].__struct_fields__:
                one, other = (getattr(each[name], field) for each in (was, now))
                if one != other:
                    yield f"{what} {name!r}: {field} {one} then, {other} now"
    if list(was) != list(now) and was.keys() == now.keys():
        yield f"{what} {', '.join(map(repr, was))} in this order then, and in another now"


def why_frozen_differ(agreed: PartSpec, came: PartSpec) -> str | None:
    """Why a script's frozen parameters are not those of others; None if they are."""
    if agreed.beside is None or came.beside is None:
        return None  # a job of a version that did not look
    for one, other in itertools.zip_longest(agreed.beside.frozen, came.beside.frozen):
        if one == other:
            continue
        if one is None or other is None or one.names != other.names:
            name = (other or one).names[0]
            return (
                f"part {came.part}: {name!r} is a frozen parameter (requires_grad=False) "
                f"of one trainer and not of another: make the same model everywhere"
            )
        here, there = (f"{spec.dtype} {spec.shape}" for spec in (other, one))
        what = "" if here == there else f" ({there}, here {here})"
        return (
            f"parameter {one.names[0]!r} is frozen and differs between trainers{what}: "
            f"part {came.part} was first shared with other values. Frozen parameters stay "
            f"with each trainer and must be the same on all: load them from one file, or "
            f"make the model under one seed (torch.manual_seed), before share"
        )
    return None


def _are_same_tables(agreed: Sequence[TableSpec], came: Sequence[TableSpec]) -> bool:
    """Whether tables are those of before, as far as the script says what they are."""
    return len(agreed) == len(came) and all(
        before == now or before == _going_on(now, before)
        for before, now in zip(agreed, came, strict=True)
    )


def _going_on(now: TableSpec, before: TableSpec) -> TableSpec:
    """A table with the optimizer of before, where the script does not speak against it."""
    was, said = before.optimizer, now.optimizer
    is_first = (  # who counts steps was no choice then
        isinstance(was, FirstAdam)
        and isinstance(said, Adam)
        and msgspec.structs.replace(said, steps="row") == was.today()
    )
    if not (now.follows or is_first):
        return now
    return msgspec.structs.replace(now, optimizer=was, follows=before.follows)


def _kind(spec: PartSpec) -> str | None:
    """The kind of the optimizer that the script has given, as far as servers know it."""
    optimizer = spec.inner if steps_locally(spec.pace) else spec.optimizer
    return None if optimizer is None else optimizer.kind
