"""Models of computation beside each other: what is told of their runs, and who must win."""

from benchmarks.harness.figures import Figure, Ratio
from benchmarks.tables.factorisation import models as factorisation_models
from benchmarks.tables.factorisation.compare import ratios_of as factorisation_ratios
from benchmarks.tables.factorisation.models import SECONDS, Result
from benchmarks.tables.topics import compare as topics
from benchmarks.tables.topics.job import Seen


def goals(ratios: list[Ratio]) -> dict[str, tuple[str, float, str]]:
    return {r.goal_name: (r.ours, r.value, r.verdict) for r in ratios if r.goal_name}


def run(model: str, seconds: float) -> Result:
    return Result(model, 2, 0.02, seconds, 10, None, [])


def test_rotation_is_to_be_quicker_than_push_pull_by_seconds() -> None:
    runs = {
        "rotation": [run("rotation", 5.0), run("rotation", 4.0), run("rotation", 6.0)],
        "push-pull": [run("push-pull", 6.0)],
        "locking": [run("locking", 60.0)],
    }
    figures = factorisation_models.figures_of(runs)
    assert [f.what for f in figures[:3]] == [SECONDS] * 3
    assert figures[0].values == (5.0, 4.0, 6.0)
    ratios = factorisation_models.ratios_of(figures)
    assert goals(ratios) == {"mf-rotation": ("rotation", 1.2, "reached")}
    assert [ratio.ours for ratio in ratios] == ["rotation", "locking"]


def test_without_push_pull_nothing_is_compared() -> None:
    figures = factorisation_models.figures_of({"rotation": [run("rotation", 5.0)]})
    assert factorisation_models.ratios_of(figures) == []


def test_only_the_best_of_ours_has_a_goal_beside_libmf() -> None:
    found = {
        "1 against 1": {"no-sync": 3.0, "rotation": 2.0, "LIBMF": 1.0},
        "2 against 2": {"no-sync": 1.0, "rotation": 2.0, "LIBMF": 0.4},
    }
    figures = [
        Figure(f"data, {what}", who, "peer" if who == "LIBMF" else "ours", "s", (seconds,))
        for what, by in found.items()
        for who, seconds in by.items()
    ]
    ratios = factorisation_ratios(figures)
    assert goals(ratios) == {
        "libmf-1": ("rotation", 0.5, "reached"),
        "libmf-2": ("no-sync", 0.4, "missed"),
    }
    assert len(ratios) == 4


def seen(seconds: float) -> Seen:
    """A run whose likelihood is -8 after ten epochs and -6 after twenty."""
    return Seen(
        epochs=[10, 20],
        seconds=[seconds / 2, seconds],
        log_likelihood=[-8.0, -6.0],
        kernel_s=1.0,
        cpu_s=1.0,
    )


def test_topics_are_compared_by_threads_and_rotation_by_its_best() -> None:
    runs = {
        "kernel alone": [seen(4.0)],
        "tomotopy, 1 thread": [seen(5.0)],
        "no-sync, 1 trainer": [seen(8.0)],
        "rotation, 1 trainer": [seen(16.0)],
        "tomotopy, 2 threads": [seen(2.0)],
        "push-pull, 2 trainers": [seen(8.0)],
        "rotation, 2 trainers": [seen(10.0)],
        "rotation, 2 trainers, one slice": [seen(5.0)],
    }
    figures = topics.measured(runs, -6.0)
    assert len(figures) == 2 * len(runs)
    assert goals(topics.compare(figures)) == {
        "tomotopy-1": ("no-sync, 1 trainer", 0.625, "reached"),
        "tomotopy-2": ("rotation, 2 trainers, one slice", 0.4, "missed"),
        "lda-rotation": ("rotation, 2 trainers, one slice", 1.6, "reached"),
    }


def test_who_never_came_to_the_likelihood_has_no_figures() -> None:
    runs = {"kernel alone": [seen(4.0)], "locking, 2 trainers": [seen(9.0)]}
    runs["locking, 2 trainers"][0].log_likelihood[1] = -7.0
    assert {figure.who for figure in topics.measured(runs, -6.5)} == {"kernel alone"}
