"""Topics under kills: counts of words are the histogram of the topics in the end."""

from pathlib import Path

import pytest

from paceline.failpoints import parse
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, wait_chaos

SCRIPT = Path(__file__).parents[2] / "examples" / "topics" / "lda.py"
SHARED = ("--epochs", "60", "--parts", "12")
POINTS = (
    "trainer.before_submit_rest=kill@6x2;trainer.between_acks=kill@17x3;"
    "trainer.before_tick=kill@9x2"
)


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    "model",
    [
        "locking",
        pytest.param("push-pull", marks=pytest.mark.soak),
        pytest.param("no-sync", marks=pytest.mark.soak),
        pytest.param("rotation", marks=pytest.mark.soak),
    ],
)
def test_counts_are_the_histogram_of_the_topics_whoever_dies(
    model: str, tmp_path: Path, forks: ForkServer
) -> None:
    # A rotation has twice as many cells as the square of the parts, in an epoch.
    sizes = ("--epochs", "12", "--parts", "4") if model == "rotation" else SHARED
    arguments = ("--data", "generated", "--topics", "10", *sizes)
    plan = ChaosPlan(
        SCRIPT,
        "sync",
        (*arguments, "--model", model),
        failpoints=POINTS,
        cut_every_s=2.0,
        limit_s=900.0,
    )
    report = wait_chaos(plan, tmp_path, forks)
    assert report.is_exact(), report.verdict
    if model != "push-pull":  # rounds are of one table each, and the looks mend them
        assert not any(report.verdict["mended"]), report.verdict
    assert report.faults.get("trainer.between_acks") == 3, report.faults
    assert set(report.faults) == set(parse(POINTS))


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_step_to_one_server_is_whole_whoever_dies_in_it(
    tmp_path: Path, forks: ForkServer
) -> None:
    points = "trainer.completing=kill@9x3;trainer.before_tick=kill@14x2"
    sizes = ("--epochs", "24", "--parts", "4", "--look-every", "8")
    arguments = ("--data", "generated", "--topics", "10", *sizes, "--model", "rotation")
    plan = ChaosPlan(
        SCRIPT,
        "sync",
        arguments,
        failpoints=points,
        servers=1,
        cut_every_s=2.0,
        limit_s=900.0,
    )
    report = wait_chaos(plan, tmp_path, forks)
    assert report.is_exact(), report.verdict
    assert not any(report.verdict["mended"]), report.verdict
    assert report.faults == {"trainer.completing": 3, "trainer.before_tick": 2}
