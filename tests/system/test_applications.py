"""Applications come to their reference results, whoever dies on the way."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from examples.classification import records, softmax
from paceline.failpoints import parse
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, wait_chaos
from tests.examples.loading import load
from tests.system.events import events_of
from tests.system.test_resume import LIMIT_S, start, wait_leases

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]

INTERRUPTED = 75  # exit status
SCRIPT = Path(__file__).with_name("application_job.py")
# Each role dies once, in the midst of its work.
TRAINER_AND_SERVER = "trainer.before_tick=kill@7;server.before_decide=kill@40"


def metrics_of(script: str, words: str, folder: Path, forks: ForkServer) -> dict[str, Any]:
    """What an application logged last, when a trainer and a server had been killed."""
    plan = ChaosPlan(
        SCRIPT,
        "sync",
        (script, *words.split()),
        failpoints=TRAINER_AND_SERVER,
        trainers=2,
        timeout_s=60.0,
        cut_every_s=0.5,
        limit_s=900.0,
    )
    report = wait_chaos(plan, folder, forks)
    assert report.verdict == {"ended": True}
    assert set(report.faults) == set(parse(TRAINER_AND_SERVER)), report.faults
    assert report.returns, "no server was missed"
    metrics = report.summary["metrics"]
    assert isinstance(metrics, dict)
    return metrics


@pytest.mark.parametrize(
    "model",
    [
        "allreduce",
        pytest.param("push-pull", marks=pytest.mark.soak),
        pytest.param("rotation", marks=pytest.mark.soak),
    ],
)
def test_k_means_comes_to_the_bits_of_the_plain_loop(
    model: str, tmp_path: Path, forks: ForkServer
) -> None:
    images, lloyd = load("clusters", "images", "lloyd")
    words = f"--data drawn --model {model} --iterations 60 --parts 2"
    found = metrics_of("clusters/kmeans", words, tmp_path, forks)
    pixels = images.load("drawn")[0].pixels
    plain = lloyd.plain(pixels, lloyd.choose_start(pixels, 10, 6), 60)
    last = lloyd.assign(pixels, plain.centroids)
    assert found["inertia"] == lloyd.inertia(last, plain.centroids)


@pytest.mark.parametrize(
    "model", ["allreduce", pytest.param("push-pull", marks=pytest.mark.soak)]
)
def test_logistic_regression_comes_to_the_loss_of_the_plain_loop(
    model: str, tmp_path: Path, forks: ForkServer
) -> None:
    words = f"--data drawn --model {model} --iterations 400 --parts 2"
    found = metrics_of("classification/logistic", words, tmp_path, forks)
    train, test = records.load("drawn", seed=0)
    plain = softmax.plain(*train, 1e-3, 400)
    assert found["loss"] == pytest.approx(plain.losses[-1], rel=1e-9)
    assert found["accuracy"] == softmax.accuracy(*test, plain.weights)


@pytest.mark.parametrize(
    ("algorithm", "model", "epochs"),
    [
        pytest.param("sgd", "no-sync", 60, marks=pytest.mark.soak),
        pytest.param("sgd", "push-pull", 60, marks=pytest.mark.soak),
        ("sgd", "rotation", 60),
        pytest.param("ccd", "no-sync", 60, marks=pytest.mark.soak),
    ],
)
def test_factors_come_down_to_the_noise(
    algorithm: str, model: str, epochs: int, tmp_path: Path, forks: ForkServer
) -> None:
    words = f"--data generated --algorithm {algorithm} --model {model} --epochs {epochs}"
    found = metrics_of("factorisation/mf", words, tmp_path, forks)
    assert found["rmse"] <= 1.02 * noise()


@pytest.mark.soak
def test_a_factorisation_that_was_stopped_goes_on_to_the_same_end(tmp_path: Path) -> None:
    job, out = tmp_path / "job", tmp_path / "verdict"
    words = ["--data", "generated", "--algorithm", "ccd", "--model", "rotation"]
    arguments = ["factorisation/mf", *words, "--epochs", "40", "--out", str(out)]
    stopped = start(job, SCRIPT, arguments, (2, 2), checkpoint_every="500ms")
    assert wait_leases(job, stopped, 100), "the job was over too early"
    stopped.send_signal(signal.SIGINT)
    stopped.communicate(timeout=LIMIT_S)
    assert stopped.returncode == INTERRUPTED
    assert not out.exists()

    last = start(job, SCRIPT, arguments, (1, 3), checkpoint_every="500ms")
    summary = json.loads(last.communicate(timeout=LIMIT_S)[0].splitlines()[-1])
    assert last.returncode == 0
    assert len(events_of(job, "Resumed")) == 1
    assert summary["epochs"] == 40
    assert summary["metrics"]["rmse"] <= 1.02 * noise()


def noise() -> float:
    """Of the ratings that are made up: nobody can be below."""
    [ratings] = load("factorisation", "ratings")
    floor = ratings.generated(300, 200, 60_000, factors=2, noise=0.5).floor
    assert floor is not None
    return float(floor)
