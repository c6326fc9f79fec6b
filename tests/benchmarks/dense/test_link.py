"""A step over a slow link stands beside the time that its bytes take."""

import contextlib
from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.dense.link import (
    Case,
    Trained,
    cases_of,
    compare_models,
    figures_of,
    measure,
    ratios_of,
    run_of,
)
from benchmarks.dense.loops import Plan
from benchmarks.dense.network import Link, Traffic, read_traffic, slow_link
from benchmarks.harness.bench import Run

PLAIN, CODED = Case(1, ""), Case(2, "bf16")
TABLE = """Inter-|   Receive                            |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs
    lo:  900       9    0    0    0     0          0         0      900       9    0
pl-far: 1000      10    0    0    0     0          0         0     2000      20    0
"""


def devices() -> list[str]:
    """Of the network of this thread."""
    lines = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
    return [line.partition(":")[0].strip() for line in lines]


def test_traffic_is_read_by_device(tmp_path: Path) -> None:
    table = tmp_path / "dev"
    table.write_text(TABLE)
    assert read_traffic("pl-far", table) == Traffic(received=1000, sent=2000)
    with pytest.raises(KeyError, match="no device 'eth9'"):
        read_traffic("eth9", table)


def test_one_trainers_share_of_one_way_never_overlaps_the_other_way() -> None:
    slow = {"seconds": 3.0, "up_bytes": 400_000, "down_bytes": 1_000_000, "loss": 0.5}
    fast = {**slow, "seconds": 2.0}
    link = Link(None, None, 8.0)  # type: ignore[arg-type]  # a byte takes a microsecond
    run = run_of([slow, fast], 2, link)
    assert run.step_ms == 1500.0
    assert run.floor_ms == 600.0  # all values, and half of the gradients
    assert run.kib == 700_000 / 1024


def test_every_number_of_servers_and_every_codec_is_a_case() -> None:
    assert cases_of([1, 4], ["bf16"]) == [Case(1, ""), Case(4, ""), Case(2, "bf16")]
    assert [str(case) for case in (PLAIN, CODED)] == [
        "1 server, no codec",
        "2 servers, bf16",
    ]


def test_a_step_is_compared_with_its_own_floor_and_with_the_first_case() -> None:
    runs = {
        PLAIN: [Trained(400.0, 300.0, 9.0, 0.5)],
        CODED: [Trained(200.0, 150.0, 5.0, 0.5)],
    }
    ratios = {(r.ours, r.against): r.value for r in ratios_of(runs, figures_of(runs))}
    assert ratios == {
        (str(PLAIN), f"{PLAIN}: its bytes"): 0.75,
        (str(CODED), f"{CODED}: its bytes"): 0.75,
        (str(CODED), str(PLAIN)): 2.0,
    }


def test_codecs_may_change_what_is_learned_and_servers_may_not() -> None:
    runs = {PLAIN: [Trained(1, 1, 1, 0.5)], CODED: [Trained(1, 1, 1, 0.6)]}
    assert compare_models(runs)[0]
    assert not compare_models({**runs, Case(4, ""): [Trained(1, 1, 1, 0.6)]})[0]


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.usefixtures("needs_machines")
def test_a_job_crosses_the_link_and_its_bytes_are_counted(tmp_path: Path) -> None:
    plan = Plan(batch=4, warm=1, timed=3, task=4)
    before = devices()
    with contextlib.ExitStack() as stack, slow_link(100.0) as link:
        run = Run(Namespace(times=1), {}, tmp_path, stack)
        [[trained]] = measure(run, [PLAIN], plan, link).values()
    assert devices() == before
    own_kib = 2 * 269_322 * 4 / 1024  # gradients and values of the trainer that looks
    assert trained.kib > own_kib
    assert trained.step_ms > 100  # its own bytes alone take 172, but for what queues hold
