"""Matrix factorisation by two trainers: every model learns what one plain loop learns."""

from collections.abc import Callable
from typing import Any

import pytest

import paceline
from tests.examples.loading import load

ccd, look, plain, ratings, sgd, work = load(
    "factorisation", "ccd", "look", "plain", "ratings", "sgd", "work"
)

EPOCHS, WITHIN = 16, 1.02
SPLIT = ratings.generated(60, 40, 6000, factors=2, noise=0.5)
SETTINGS = plain.Settings(k=2, rate=0.03, penalty=0.02, decay=0.9)
MODELS = [
    *(("sgd", name, model, EPOCHS) for name, model in sgd.MODELS.items()),
    *(("ccd", name, model, 2 * EPOCHS) for name, model in ccd.MODELS.items()),
]
Run = Callable[..., list[Any]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "model", "epochs"),
    [(method, model, epochs) for method, _, model, epochs in MODELS],
    ids=[f"{method}-{name}" for method, name, _, _ in MODELS],
)
def test_two_trainers_learn_what_one_loop_learns(
    run: Run, method: str, model: Any, epochs: int
) -> None:
    to_do = work.Work(SPLIT, SETTINGS, epochs, batch_size=300, blocks=4)

    def script(session: paceline.Session) -> Any:
        seen = look.Look(session, SPLIT, model(session, to_do))
        seen.until_the_end()
        return seen.seen

    *_, wanted = plain.METHODS[method](SPLIT, SETTINGS, EPOCHS, 0)
    looks = [seen for seen in run(script, trainers=2) if seen]
    assert len(looks) == 1, "one trainer looks"
    last = looks[0][-1][-1]
    assert SPLIT.floor < last < WITHIN * wanted


@pytest.mark.slow
def test_a_job_stops_where_the_error_is_low_enough(run: Run) -> None:
    to_do = work.Work(SPLIT, SETTINGS, 1000, batch_size=300)

    def script(session: paceline.Session) -> Any:
        seen = look.Look(session, SPLIT, sgd.MODELS["no-sync"](session, to_do))
        seen.until_the_end(target=0.7)
        return seen.seen

    (seen,) = [seen for seen in run(script, trainers=2) if seen]
    assert 1 < len(seen) < 1000
    assert min(error for _, _, error in seen) <= 0.7
