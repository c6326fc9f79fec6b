"""A codec's loss is told by medians over the same seeds, beside the bytes that it saves."""

import msgspec
import pytest

from benchmarks.ctr.codecs import Trained, compare_jobs, figures_of, lost, ratios_of, run_of
from benchmarks.harness.apart import CODECS, LOSSLESS, apart, pace_of
from paceline.config import Sync, parse_pace
from paceline.server.slots import published as service_lending
from paceline.watch.summary import Restarts, Summary, TaskCounts

SUMMARY = Summary(
    status="finished",
    epochs=1,
    records=1000,
    tasks=TaskCounts(4, 0),
    steps=10,
    seconds=2.0,
    records_per_second=500.0,
    metrics={"auc": 0.75},
    restarts=Restarts(0, 0, 0),
    job_dir="runs/x",
    counters={
        "part-0.gradient_bytes": 99_999,
        "part-0.gradient_bytes_sent": 10_240,
        "part-0.value_bytes_sent": 20_480,
        "part-1.value_bytes_sent": 10_240,
        "duplicates": 3,
    },
)


def runs(*aucs: float, kib: float = 10.0) -> list[Trained]:
    return [Trained(auc, 1000, kib, 500.0) for auc in aucs]


def test_bytes_are_those_that_travelled_in_a_step_of_all_parts() -> None:
    assert run_of(SUMMARY) == Trained(auc=0.75, records=1000, sent_kib=4.0, rate=500.0)


def test_a_job_that_scored_nothing_is_named() -> None:
    with pytest.raises(ValueError, match="runs/x: expected an AUC"):
        run_of(msgspec.structs.replace(SUMMARY, metrics={}))


def test_what_is_lost_is_the_distance_of_medians() -> None:
    found = {LOSSLESS: runs(0.75, 0.76, 0.70), "bf16": runs(0.749, 0.60, 0.76)}
    assert lost(found, "bf16") == pytest.approx(0.001)
    assert lost(found, LOSSLESS) == 0


def test_each_codec_is_held_to_the_goal_and_to_no_codec() -> None:
    found = {
        LOSSLESS: runs(0.75, kib=40.0),
        "bf16": runs(0.7495, kib=20.0),
        "top1%": runs(0.74, kib=2.0),
    }
    ratios = {(r.what, r.ours): r for r in ratios_of(found, figures_of(found))}
    assert ratios["AUC lost", "bf16"].verdict == "reached"
    assert ratios["AUC lost", "top1%"].verdict == "missed"
    assert ratios["AUC lost", "top1%"].found == "0.0100 AUC"
    assert ratios["sent in a step", "bf16"].value == 2.0
    assert ("AUC lost", "no codec") not in ratios


def test_jobs_that_trained_other_records_are_not_equal() -> None:
    is_equal, told = compare_jobs({LOSSLESS: runs(0.75, 0.76), "bf16": runs(0.7)})
    assert is_equal
    assert "1,000 records; without a codec the AUC is 0.7500 to 0.7600 by the seed" in told
    other = [run._replace(records=999) for run in runs(0.7)]
    assert not compare_jobs({LOSSLESS: runs(0.75), "bf16": other})[0]


@pytest.mark.parametrize("codec", [LOSSLESS, *CODECS])
def test_every_codec_is_one_that_a_pace_takes(codec: str) -> None:
    assert parse_pace(pace_of(codec)) == Sync(codec=codec or None)


def test_servers_that_are_apart_lend_nothing() -> None:
    with apart():
        assert not service_lending.is_supported()
