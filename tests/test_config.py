"""Specs are checked when they are made, and are the same after a journey."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
import pytest

import paceline
from paceline.codec_names import top_share
from paceline.config import (
    FTRL,
    SGD,
    SSP,
    Adagrad,
    Adam,
    Async,
    DiLoCo,
    JobConfig,
    LocalSGD,
    Pace,
    RowOptimizer,
    RowWiseAdagrad,
    Sync,
    parse_pace,
    parse_trainers,
)
from paceline.errors import UsageError

OPTIMIZERS: list[RowOptimizer] = [
    SGD(lr=0.1),
    SGD(lr=0.1, momentum=0.9),
    Adagrad(initial_accumulator=0.1),
    RowWiseAdagrad(eps=1e-6),
    Adam(betas=(0.5, 0.99)),
    FTRL(lr=0.3, beta=0.0, l1=1.0, l2=2.0),
]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_row_optimizer_is_the_same_after_a_journey(optimizer: RowOptimizer) -> None:
    for form in (msgspec.json, msgspec.msgpack):
        assert form.decode(form.encode(optimizer), type=RowOptimizer) == optimizer


def test_row_optimizers_of_older_journals_are_still_read() -> None:
    for text, optimizer in {
        b'{"type":"sgd","lr":0.1}': SGD(lr=0.1),
        b'{"type":"adagrad","lr":0.1,"initial_accumulator":0.0,"eps":1e-10}': Adagrad(
            lr=0.1
        ),
    }.items():
        assert msgspec.json.decode(text, type=RowOptimizer) == optimizer


def test_row_optimizers_are_public() -> None:
    for optimizer in OPTIMIZERS:
        assert getattr(paceline, type(optimizer).__name__) is type(optimizer)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD(lr=-1), "SGD: lr must be >= 0, got -1"),
        (lambda: SGD(lr=float("nan")), "SGD: lr must be >= 0, got nan"),
        (lambda: SGD(lr=1, momentum=1), r"SGD: momentum must be in \[0, 1\), got 1"),
        (
            lambda: Adagrad(initial_accumulator=-1),
            "Adagrad: initial_accumulator must be >= 0, got -1",
        ),
        (lambda: Adagrad(eps=-1e-9), "Adagrad: eps must be >= 0, got -1e-09"),
        (lambda: RowWiseAdagrad(lr=-1), "RowWiseAdagrad: lr must be >= 0, got -1"),
        (lambda: Adam(eps=-1), "Adam: eps must be >= 0, got -1"),
        (lambda: Adam(betas=(0.9, 1.0)), r"tuple of two numbers .* got \(0.9, 1.0\)"),
        (lambda: Adam(betas=(0.9,)), r"tuple of two numbers .* got \(0.9,\)"),
        (lambda: Adam(betas=[0.9, 0.9]), r"tuple of two numbers .* got \[0.9, 0.9\]"),
        (lambda: Adam(betas=0.9), "tuple of two numbers .* got 0.9"),
        (lambda: FTRL(lr=0), "FTRL: lr must be > 0, got 0"),
        (lambda: FTRL(l1=-0.5), "FTRL: l1 must be >= 0, got -0.5"),
        (lambda: FTRL(l2=-0.5), "FTRL: l2 must be >= 0, got -0.5"),
    ],
)
def test_a_row_optimizer_out_of_range_is_refused(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make()


@pytest.mark.parametrize(("text", "numbers"), [("4", (4, 0)), ("2:6", (2, 6))])
def test_trainers_are_a_number_or_the_fewest_and_the_most(
    text: str, numbers: tuple[int, int]
) -> None:
    assert parse_trainers(text) == numbers


@pytest.mark.parametrize("text", ["", "two", "2:", ":6", "2:x", "-1", "2:0", "2:4:6"])
def test_any_other_way_to_say_how_many_trainers_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        parse_trainers(text)


def test_the_most_trainers_are_not_fewer_than_the_fewest() -> None:
    with pytest.raises(UsageError, match="expected the fewest, then the most, got 6:2"):
        JobConfig(run="r", trainers=6, most_trainers=2)


@pytest.mark.parametrize(
    ("pace", "text"),
    [
        (Sync(), "sync"),
        (Sync(reduce="sum"), "sync:reduce=sum"),
        (Sync(codec="bf16"), "sync:codec=bf16"),
        (Sync(reduce="sum", codec="top1%"), "sync:reduce=sum,codec=top1%"),
        (Async(), "async"),
        (Async(push_every=4, pull_every=8), "async:push=4,pull=8"),
        (Async(codec="top0.5%"), "async:codec=top0.5%"),
        (
            Async(push_every=4, pull_every=8, codec="int8"),
            "async:push=4,pull=8,codec=int8",
        ),
        (Async(isolation="hogwild"), "async:isolation=hogwild"),
        (Async(merge=4), "async:merge=4"),
        (Sync(backup=1), "sync:backup=1"),
        (Sync(reduce="sum", backup=2, late="again"), "sync:reduce=sum,backup=2,late=again"),
        (LocalSGD(every=20), "local:20"),
        (LocalSGD(every=20, codec="bf16"), "local:20,codec=bf16"),
        (DiLoCo(every=50), "diloco:50"),
        (
            DiLoCo(every=50, outer_lr=0.4, outer_momentum=0.0),
            "diloco:50,lr=0.4,momentum=0.0",
        ),
        (
            DiLoCo(every=50, fragments=4, overlap=5, mix=0.25, codec="int4"),
            "diloco:50,fragments=4,overlap=5,mix=0.25,codec=int4",
        ),
        (DiLoCo(every=50, overlap=5), "diloco:50,overlap=5"),
        (SSP(staleness=3), "ssp:3"),
        (SSP(staleness=0, codec="bf16"), "ssp:0,codec=bf16"),
        (Async(push_every=2, merge=8), "async:push=2,pull=1,merge=8"),
        (
            Async(pull_every=2, isolation="hogwild", codec="int8"),
            "async:push=1,pull=2,isolation=hogwild,codec=int8",
        ),
    ],
)
def test_a_pace_is_read_as_it_is_written(pace: Pace, text: str) -> None:
    assert str(pace) == text
    assert parse_pace(text) == pace
    assert msgspec.json.decode(msgspec.json.encode(pace), type=Pace) == pace


def test_paces_of_older_journals_have_no_codec() -> None:
    assert msgspec.json.decode(b'{"type":"sync","reduce":"sum"}', type=Pace).codec is None
    told = b'{"type":"async","push_every":4,"pull_every":8}'
    assert msgspec.json.decode(told, type=Pace) == Async(push_every=4, pull_every=8)


@pytest.mark.parametrize("make", [Sync, Async])
@pytest.mark.parametrize(
    "codec",
    ["", "fp8", "BF16", "top%", "top0%", "top101%", "top1", "top01%", "top1.0%", "top-1%"],
)
def test_what_is_no_codec_is_refused_and_says_what_is_one(
    make: type[Sync | Async], codec: str
) -> None:
    name = make.__name__.lower()
    text = f"{name}: codec is one of fp16, bf16, int8, int4 or top<P>% .*, got {codec!r}"
    with pytest.raises(UsageError, match=text):
        make(codec=codec)
    with pytest.raises(UsageError, match=text):
        parse_pace(f"{name}:codec={codec}")


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("top1%", Fraction(1, 100)),
        ("top0.5%", Fraction(1, 200)),
        ("top100%", Fraction(1)),
        ("top12.345%", Fraction(12345, 100000)),
        ("bf16", None),
    ],
)
def test_a_share_is_exactly_what_is_written(name: str, share: Fraction | None) -> None:
    assert top_share(name) == share


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not one of sync, ssp, local, diloco, auto, async-diloco, async"),
        ("allreduce", r"write session.share\(model, optimizer, pace='allreduce'\)"),
        (
            "warp:speed=9",
            "'warp' is not one of sync, ssp, local, diloco, auto, async-diloco, async",
        ),
        ("sync:reduce=max", "reduce is 'mean' or 'sum', got 'max'"),
        ("sync:push=4", "sync has no option push"),
        ("async:pull=2,twist=1", "async has no option twist; it has push, pull, "),
        ("async:isolation=wild", "isolation is 'serial' or 'hogwild', got 'wild'"),
        ("sync:isolation=hogwild", "a round is one update, so only async has isolation"),
        ("async:merge=0", "merge is a number of pushes >= 1, got 0"),
        ("async:merge=some", "expected a whole number, got 'some'"),
        (
            "async:merge=4,isolation=hogwild",
            "merge=4 takes pushes that wait for each other, and with isolation=hogwild",
        ),
        ("sync:merge=4", "a round is one update, so only async has merge"),
        ("async:push", "expected option=value, got 'push'"),
        ("sync:backup=-1", "backup is a number of trainers >= 0, got -1"),
        ("sync:backup=1,late=soon", "late is 'drop' or 'again', got 'soon'"),
        ("sync:late=again", "nobody is late where all are waited for"),
        ("ssp", "expected a number, like ssp:3"),
        ("local", "expected a number, like local:20"),
        ("local:0", "every is a number of batches >= 1, got 0"),
        ("diloco:50,lr=0", "lr is a number > 0, got 0.0"),
        ("diloco:50,lr=fast", "expected a number, got 'fast'"),
        ("diloco:50,momentum=1", "momentum is a number from 0 to below 1, got 1.0"),
        ("diloco:50,fragments=0", "fragments is a number from 1 to every=50, .* got 0"),
        ("diloco:4,fragments=5", "from 1 to every=4, a batch or more for each one's turn"),
        ("diloco:50,fragments=4,overlap=12", "from 0 to below the 12 of one turn .*got 12"),
        ("diloco:50,overlap=-1", "overlap is a number of batches from 0 to below the 50"),
        ("diloco:50,overlap=5,mix=1", "mix is a number from 0 to below 1, got 1.0"),
        ("diloco:50,mix=0.2", "with overlap=0 it waits for them: give overlap, or leave"),
        ("diloco:50,overlap=4,quorum=2", "quorum=2 with fragments or overlap: who is not"),
        ("local:50,fragments=4", "local has no option fragments"),
        ("diloco:50,backup=1", "who is late for a round of deltas trains them again"),
        ("ssp:-1", "staleness is a number of steps >= 0, got -1"),
        ("ssp:few", "expected a whole number, got 'few'"),
        ("ssp:3,4", "expected option=value, got '4'"),
        ("ssp:3,staleness=4", "staleness is said twice"),
        ("ssp:3,isolation=hogwild", "what ssp promises of reads, hogwild breaks"),
        ("async:push=0", "push is a number of batches >= 1, got 0"),
        ("async:pull=soon", "expected a whole number, got 'soon'"),
        ("async:pull=1.5", "expected a whole number, got '1.5'"),
    ],
)
def test_any_other_pace_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_pace(text)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "4"])
def test_a_pace_counts_whole_batches(value: Any) -> None:
    with pytest.raises(UsageError, match="pull is a number of batches >= 1, got"):
        Async(pull_every=value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"trainers": 0}, "trainers must be >= 1, got 0"),
        ({"trainers": "4"}, "trainers must be a whole number, got '4'"),
        ({"servers": 1.5}, "servers must be a whole number, got 1.5"),
        ({"seed": 2**63}, "seed must be within 64 bits, got 9223372036854775808"),
        ({"timeout_s": 0.0}, "timeout must be > 0 s, got 0.0"),
        ({"timeout_s": float("nan")}, "timeout must be > 0 s, got nan"),
        ({"cut_every_s": -1.0}, "between checkpoints must be >= 0 s, got -1.0"),
        ({"keep_cuts": 0}, "keep_cuts must be >= 1, got 0"),
        ({"max_task_failures": 0}, "max_task_failures must be >= 1, got 0"),
    ],
)
def test_a_job_out_of_range_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        JobConfig(run="r", **fields)


def test_a_job_has_the_id_of_its_first_run_and_keeps_it() -> None:
    first = JobConfig(run="one")
    assert first.job == "one"
    assert msgspec.structs.replace(first, run="two").job == "one"
    fields = msgspec.to_builtins(first)
    del fields["job"]
    assert msgspec.convert(fields, JobConfig).job == "one", "of the version before"
