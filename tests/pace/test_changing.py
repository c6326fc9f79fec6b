import msgspec
import pytest

from paceline.config import (
    FTRL,
    SSP,
    Adagrad,
    Adam,
    Async,
    Auto,
    Combine,
    DiLoCo,
    FirstAdam,
    LocalSGD,
    Pace,
    Sync,
    Zeros,
)
from paceline.messages.shared import (
    Beside,
    FrozenSpec,
    OptimizerSpec,
    ParameterSpec,
    PartSpec,
    TableSpec,
)
from paceline.pace.changing import (
    first_pace,
    why_not_change,
    why_not_same,
    with_pace,
)
from paceline.pace.tables import why_not_for_table

ADAM = OptimizerSpec("Adam", ({"lr": 0.1}, {"lr": 0.2}))
PARAMETERS = (ParameterSpec(("w",), (4, 2), "float32"),)


def part(pace: Pace, number: int = 0, **more: object) -> PartSpec:
    fields = {"parameters": PARAMETERS, "optimizer": ADAM, "tables": (), **more}
    return PartSpec(number, pace=pace, **fields)  # type: ignore[arg-type]  # as they are named


def table(optimizer: object = None) -> TableSpec:
    return TableSpec("seen", 2, optimizer or Adagrad(), Zeros())  # type: ignore[arg-type]


def test_between_paces_by_which_servers_step_only_the_pace_changes() -> None:
    changed = with_pace(part(Sync()), SSP(staleness=5))
    assert changed.pace == SSP(staleness=5)
    assert (changed.optimizer, changed.inner) == (ADAM, None)
    assert first_pace(changed) == Sync()


def test_with_local_steps_the_optimizer_goes_to_the_trainers_and_comes_back() -> None:
    local = with_pace(part(Sync()), LocalSGD(every=4))
    outer = {"lr": 1.0, "momentum": 0.0, "nesterov": False}
    assert local.optimizer == OptimizerSpec("SGD", (outer, outer)), "one for each group"
    assert local.inner == ADAM
    other = with_pace(local, DiLoCo(every=8))
    assert other.optimizer is not None
    assert other.optimizer.groups[0]["lr"] == DiLoCo(every=8).outer_lr
    assert other.inner == ADAM
    back = with_pace(other, Async())
    assert (back.optimizer, back.inner, first_pace(back)) == (ADAM, None, Sync())


def test_a_script_that_begins_again_shares_the_same_part_under_its_first_pace() -> None:
    fresh = part(Sync())
    changed = with_pace(with_pace(fresh, LocalSGD(every=4)), Async())
    assert why_not_same(changed, fresh) is None
    assert why_not_same(with_pace(fresh, LocalSGD(every=4)), fresh) is None
    assert why_not_same(changed, part(Async()))
    assert why_not_same(changed, part(Sync(), optimizer=OptimizerSpec("SGD", ({},))))


def net(width: int, *more: str) -> tuple[ParameterSpec, ...]:
    shapes = {"0.weight": (width, 8), "0.bias": (width,), "2.weight": (1, width)}
    first = [ParameterSpec((name,), shape, "float32") for name, shape in shapes.items()]
    return (*first, *(ParameterSpec((name,), (1,), "float32") for name in more))


def test_who_shares_another_model_reads_what_differs_and_what_to_do() -> None:
    agreed = part(Sync(), parameters=net(16, "2.bias"))
    reason = why_not_same(agreed, part(Async(), parameters=net(32, "new")))
    assert reason is not None
    assert reason.startswith(
        "part 0 was first shared otherwise: parameter '0.weight': shape (16, 8) then, "
        "(32, 8) now; parameter '0.bias': shape (16,) then, (32,) now; parameter "
        "'2.weight': shape (1, 16) then, (1, 32) now; and 3 more. "
    )
    assert "also after --resume" in reason
    assert "begin another job in another folder" in reason
    assert "Spec" not in reason


@pytest.mark.parametrize(
    ("came", "told"),
    [
        (part(Async()), "pace sync then, async now"),
        (
            part(Sync(), optimizer=OptimizerSpec("SGD", ({},))),
            "optimizer Adam then, SGD now",
        ),
        (part(Sync(), optimizer=None), "optimizer Adam then, none now"),
        (part(Sync(), strategy="Own"), "strategy none then, Own now"),
        (part(Sync(), parameters=()), "parameter 'w' then, and not now"),
        (
            part(Sync(), parameters=(*PARAMETERS, *net(4)[:1])),
            "parameter '0.weight' now, and not then",
        ),
        (part(Sync(), tables=(table(),)), "rows of 'seen' now, and not then"),
    ],
)
def test_what_is_shared_otherwise_is_named(came: PartSpec, told: str) -> None:
    assert f"shared otherwise: {told}. All" in (why_not_same(part(Sync()), came) or "")


def test_parameters_in_another_order_are_told_as_that() -> None:
    agreed, came = (part(Sync(), parameters=each) for each in (net(4)[:2], net(4)[1::-1]))
    told = "parameter '0.weight', '0.bias' in this order then, and in another now"
    assert f"otherwise: {told}." in (why_not_same(agreed, came) or "")


def test_rows_whose_optimizer_a_script_leaves_open_go_on_as_they_began() -> None:
    began = part(Sync(), tables=(table(Adagrad(lr=0.05)),))
    follows = msgspec.structs.replace(table(Adam(lr=0.1)), follows=True)
    assert why_not_same(began, part(Sync(), tables=(follows,))) is None
    assert why_not_same(began, part(Sync(), tables=(table(Adam(lr=0.1)),)))
    wider = part(Sync(), tables=(msgspec.structs.replace(follows, dim=3),))
    assert "otherwise: rows of 'seen': dim 2 then, 3 now." in (
        why_not_same(began, wider) or ""
    )


def test_adam_of_before_goes_on_whatever_counts_steps_today() -> None:
    began = part(Sync(), tables=(table(FirstAdam(lr=0.1)),))
    assert why_not_same(began, part(Sync(), tables=(table(Adam(lr=0.1)),))) is None
    by_row = table(Adam(lr=0.1, steps="row"))
    assert why_not_same(began, part(Sync(), tables=(by_row,))) is None
    assert why_not_same(began, part(Sync(), tables=(table(Adam(lr=0.2)),)))
    now = part(Sync(), tables=(table(Adam(lr=0.1)),))
    assert why_not_same(now, part(Sync(), tables=(by_row,)))


@pytest.mark.parametrize(
    ("spec", "pace", "reason"),
    [
        (part(Sync(), tables=(table(),)), LocalSGD(every=4), "the rows of 'seen'"),
        (
            part(Sync(), parameters=(ParameterSpec(("e",), (4, 2), "float32", 0, True),)),
            LocalSGD(every=4),
            "'e' has sparse gradients",
        ),
        (part(LocalSGD(every=4)), Sync(), "an optimizer that no server knows"),
        (part(DiLoCo(every=4, fragments=2)), DiLoCo(every=4), "begins and ends so"),
        (part(DiLoCo(every=4)), DiLoCo(every=4, overlap=1), "begins and ends so"),
        (
            part(Async(), tables=(table(FTRL()),)),
            Async(isolation="hogwild"),
            "FTRL of the embedding 'seen'",
        ),
    ],
)
def test_what_a_part_cannot_be_is_refused_with_the_reason(
    spec: PartSpec, pace: Pace, reason: str
) -> None:
    told = why_not_change([spec], {0: pace})
    assert told is not None
    assert reason in told


OWN = PartSpec(0, (), None, (table(Combine()),), Async())


@pytest.mark.parametrize(
    ("pace", "reason"),
    [
        (Sync(), "use sync:reduce=sum"),
        (Sync(reduce="sum", backup=1), "drops what comes late"),
        (Async(codec="bf16"), "codes gradients"),
        (Async(isolation="hogwild"), "a table has none"),
        (Async(push_every=2, pull_every=4), "leave pull out"),
        (LocalSGD(every=4), "a table has none"),
        (Auto(), "a table has none"),
    ],
    ids=str,
)
def test_a_table_goes_to_no_pace_that_it_could_not_begin_with(
    pace: Pace, reason: str
) -> None:
    told = why_not_change([OWN], {0: pace})
    assert told is not None
    assert reason in told
    assert reason in (why_not_for_table(pace) or "")


@pytest.mark.parametrize(
    "pace",
    [
        Async(push_every=3),
        SSP(staleness=2),
        Sync(reduce="sum"),
        Sync(reduce="sum", backup=1, late="again"),
    ],
    ids=str,
)
def test_a_table_goes_to_paces_that_lose_nothing(pace: Pace) -> None:
    assert why_not_change([OWN], {0: pace}) is None


def test_parts_that_would_not_go_beside_each_other_are_refused() -> None:
    both = [part(Sync()), part(Sync(), 1)]
    assert why_not_change(both, {0: SSP(staleness=0)}) is not None
    assert why_not_change(both, {0: SSP(staleness=0), 1: SSP(staleness=0)}) is None
    assert why_not_change(both, {1: Async()}) is None


@pytest.mark.parametrize("pace", [Sync(reduce="sum"), Async(push_every=2)], ids=str)
def test_rows_that_change_under_locks_alone_stay_in_a_pace_that_has_locks(
    pace: Pace,
) -> None:
    own = PartSpec(0, (), None, (table(Combine(rule="replace")),), Async())
    reason = why_not_change([own], {0: pace})
    assert reason is not None
    assert "use async" in reason or "leave push out" in reason
    assert why_not_change([own], {0: SSP(staleness=1)}) is None


def beside(*frozen: FrozenSpec) -> Beside:
    return Beside(frozen, "name", 4, "digest")


def test_frozen_parameters_that_differ_are_named() -> None:
    own = FrozenSpec(("a.weight",), (2,), "float32", "1")
    agreed = PartSpec(0, (), None, (), Async(), beside=beside(own))

    def why(*frozen: FrozenSpec) -> str:
        came = msgspec.structs.replace(agreed, beside=beside(*frozen))
        return why_not_same(agreed, came) or ""

    assert why(own) == ""
    other = msgspec.structs.replace(own, xxh3="2")
    assert "parameter 'a.weight' is frozen and differs between trainers: part 0" in why(
        other
    )
    wider = msgspec.structs.replace(other, shape=(3,))
    assert "trainers (float32 (2,), here float32 (3,)):" in why(wider)
    assert "'a.weight' is a frozen parameter (requires_grad=False) of one" in why()
    late = msgspec.structs.replace(own, names=("b",))
    assert "'b' is a frozen parameter" in why(own, late)


def test_a_part_of_a_version_that_did_not_look_is_taken_as_it_is() -> None:
    agreed = PartSpec(0, (), None, (), Async())
    frozen = FrozenSpec(("a.weight",), (2,), "float32", "1")
    assert (
        why_not_same(agreed, msgspec.structs.replace(agreed, beside=beside(frozen))) is None
    )
