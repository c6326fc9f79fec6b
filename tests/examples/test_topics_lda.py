"""The application, whole: each model of computation finds what the plain loop finds."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.topics import corpus, gibbs, quality

SCRIPT = Path(corpus.__file__).with_name("lda.py")
EPOCHS, TOPICS, PRIORS = 12, 10, quality.Priors()
LIMIT_S = 240.0
AT_LENGTH = {  # one way of each kind is looked at in a hurry
    model: pytest.param(model, marks=pytest.mark.soak)
    for model in ("locking", "push-pull", "no-sync", "rotation")
}


def lda(out: Path, *command: str) -> dict[str, Any]:
    """What the script finds in generated documents, in processes of its own."""
    flags = ["--data", "generated", "--topics", str(TOPICS), "--epochs", str(EPOCHS)]
    done = subprocess.run(
        [sys.executable, *command, *flags, "--look-every", "4", "--out", str(out)],
        cwd=out.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(out.read_text())
    return found


@pytest.fixture(scope="module")
def plain() -> float:
    """Log-likelihood by a plain loop in one process, with no table at all."""
    train, _ = corpus.load("generated").split()
    part = train.part(np.arange(train.num_documents))
    n_dk = np.zeros((train.num_documents, TOPICS), np.int32)
    n_wk = np.zeros((len(part.words), TOPICS), np.int32)
    n_k, topics = np.zeros(TOPICS, np.int64), np.zeros(len(part.tokens), np.int32)
    places = part.doc_of, part.row_of, part.tokens
    for epoch in range(EPOCHS):
        counts, priors = (n_dk, n_wk, n_k), PRIORS if epoch else (1e9, 1e9)
        gibbs.sweep(*places, topics, *counts, *priors, len(train.vocabulary), 0, epoch)
    whole = np.zeros((len(train.vocabulary), TOPICS), np.int32)
    whole[part.words] = n_wk
    return quality.log_likelihood(n_dk, whole, PRIORS) / len(part.tokens)


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize("model", ["push-pull", AT_LENGTH["locking"], AT_LENGTH["no-sync"]])
def test_one_trainer_finds_what_the_plain_loop_finds_to_the_bit(
    tmp_path: Path, plain: float, model: str
) -> None:
    found = lda(tmp_path / "found.json", str(SCRIPT), "--model", model)
    assert found["log_likelihood"][-1] == plain
    assert found["exact"]
    assert found["epochs"] == [0, 4, 8, 12]


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [*(AT_LENGTH[m] for m in ("locking", "push-pull", "rotation")), "no-sync"]
)
def test_two_trainers_come_as_far_as_the_plain_loop(
    tmp_path: Path, plain: float, model: str
) -> None:
    found = lda(
        tmp_path / "found.json",
        *("-m", "paceline.cli.main", "run", "--trainers", "2", "--job-dir", "job"),
        *(str(SCRIPT), "--model", model),
    )
    # The order of draws is another, so it is another sample. With eight other seeds the
    # plain loop's, too, lie 0.3 apart; topics by chance are 4 lower.
    assert found["log_likelihood"][-1] == pytest.approx(plain, abs=0.4)
    assert found["exact"]
