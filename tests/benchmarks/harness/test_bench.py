"""What is declared is parsed, run in turns, told, kept and judged."""

import json
from pathlib import Path

import pytest

from benchmarks.harness.bench import Found, Run, bench, opt
from benchmarks.harness.figures import Figure, judged

HERE = {"where": "here"}


@pytest.fixture(autouse=True)
def records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where records go; nobody looks at how busy the machine is."""
    monkeypatch.setattr(
        "benchmarks.harness.bench.circumstances", lambda _: {"where": "here"}
    )
    monkeypatch.setattr("benchmarks.harness.record.FOLDER", tmp_path)
    return tmp_path


def found(loss: float, *, is_equal: bool = True) -> Found:
    figure = Figure("AUC lost", "bf16", "ours", "AUC", (loss,))
    ratios = [judged(figure, "codec")]
    return Found([figure], ratios, "the same records", is_equal, more={"seed": 7})


def test_options_have_the_type_of_what_they_are_without_being_given() -> None:
    seen: list[dict[str, object]] = []
    options = (
        opt("times", 5),
        opt("sizes", (1, 2)),
        opt("codecs", ("bf16",)),
        opt("small", False),
        opt("picture", None, kind=Path),
    )

    @bench("codecs", *options)
    def main(run: Run) -> int:
        seen.append(vars(run.flags))
        return 3

    assert main(["codecs"]) == 3
    assert main(["codecs", "--sizes=4", "--codecs=", "--small", "--picture=p.png"]) == 3
    assert seen[0] == {
        "times": 5,
        "sizes": (1, 2),
        "codecs": ("bf16",),
        "small": False,
        "picture": None,
    }
    assert seen[1] == {
        "times": 5,
        "sizes": (4,),
        "codecs": (),
        "small": True,
        "picture": Path("p.png"),
    }


def test_what_cannot_be_chosen_is_named_beside_what_can(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main = bench("dial", opt("only", ("bound", "ages"), choices=("bound", "ages")))(
        lambda _: 0
    )
    assert main(["dial", "--only", "ages"]) == 0
    with pytest.raises(SystemExit):
        main(["dial", "--only", "ages,age"])
    assert "'age': expected one of bound, ages" in capsys.readouterr().err


def test_what_is_found_is_told_and_kept_under_the_name(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("codecs")(lambda _: found(0.001))(["codecs"]) == 0
    [path] = records.glob("codecs-*.json")
    record = json.loads(path.read_text())
    assert (record["where"], record["seed"], record["is_equal"]) == ("here", 7, True)
    assert record["ratios"][0]["goal_name"] == "codec"
    told = capsys.readouterr().out
    assert told.startswith("the same records\n")
    assert "reached" in told
    assert str(path) in told


@pytest.mark.parametrize(
    ("loss", "is_equal", "must", "status"),
    [
        (0.001, True, ["codec"], 0),
        (0.9, True, [], 0),
        (0.9, True, ["codec"], 1),
        (0.001, False, [], 1),
    ],
)
def test_a_missed_goal_fails_only_what_must_reach_it(
    loss: float, is_equal: bool, must: list[str], status: int
) -> None:
    main = bench("codecs", must=must)(lambda _: found(loss, is_equal=is_equal))
    assert main(["codecs"]) == status


def test_a_goal_of_another_benchmark_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="link: goals of another"):
        bench("link")(lambda _: found(0.001))(["link"])


def test_candidates_take_turns_each_time_in_a_fresh_folder() -> None:
    asked: list[tuple[str, Path]] = []

    @bench("codecs", opt("times", 3))
    def main(run: Run) -> int:
        def once(one: str, place: Path) -> int:
            asked.append((one, place))
            return len(asked)

        runs = run.interleaved(
            "abc",
            once,
            lambda one, number: f"{one}: {number}",
            is_turned=True,
            gives_up=lambda _, one: one == "b",
        )
        assert runs == {"a": [1, 5, 6], "b": [2], "c": [3, 4, 7]}
        assert all(place.is_dir() and not list(place.iterdir()) for _, place in asked)
        return 0

    assert main(["codecs"]) == 0
    assert [one for one, _ in asked] == list("abccaac")
    assert len({place for _, place in asked}) == 7
    assert not any(place.exists() for _, place in asked)
