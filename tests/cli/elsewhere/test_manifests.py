"""`paceline manifests` prints what can be applied, and refuses what a cluster would."""

import pytest
import yaml

from paceline.transport.handshake import Secret
from tests.cli.running import exit_code

NEEDED = ("--image", "job:1", "--checkpoints", "s3://bucket/cuts")


def command(text: str, role: str) -> list[str]:
    """What the container of a role runs."""
    jobs = [one for one in yaml.safe_load_all(text) if one["kind"] == "Job"]
    pods = [job["spec"]["template"]["spec"] for job in jobs]
    [found] = [one for pod in pods for one in pod["containers"] if one["name"] == role]
    words: list[str] = found["command"]
    return words


def test_the_coordinator_is_told_what_the_job_is_to_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ["--trainers", "2:3", "--servers", "2", "--pace", "async", "--timeout", "20s"]
    said += ["--plugin", "rows.py", "--plugin", "more", "-m"]
    script = ["package.my_train", "--pace", "fast"]

    assert exit_code(monkeypatch, "manifests", "k8s", *NEEDED, *said, *script) == 0

    text = capsys.readouterr().out
    words = command(text, "coordinator")
    there = words.index("--checkpoints") + 2
    assert words[:3] == ["paceline", "role", "coordinator"]
    assert sorted(words[there : -len(script)]) == sorted(said)
    assert words[-len(script) - 1 :] == ["-m", *script]
    names = {one["metadata"]["name"] for one in yaml.safe_load_all(text)}
    assert "package-my-train-trainers" in names


def test_each_manifest_has_another_secret(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = set()
    for kind in ("k8s", "jobset"):
        assert exit_code(monkeypatch, "manifests", kind, *NEEDED, "train.py") == 0
        objects = yaml.safe_load_all(capsys.readouterr().out)
        [secret] = [one["stringData"] for one in objects if one["kind"] == "Secret"]
        found.add(Secret.parse(secret["secret"], "here").text())
    assert len(found) == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--name", "My_Job", "train.py"], "--name: expected at most 40 small letters"),
        (["1.py"], "--name: expected at most 40 small letters"),
        (["--trainers", "8:4", "train.py"], "8:4"),
        (["--trainers", "200000", "train.py"], "--trainers: expected 1 to 100000"),
        (["--servers", "0", "train.py"], "servers must be >= 1"),
        (["--pace", "fast", "train.py"], "fast"),
        (["--timeout", "soon", "train.py"], "--timeout: expected a duration"),
        (["--checkpoint-every", "x", "train.py"], "--checkpoint-every: expected"),
        (["--cpu", "x", "train.py"], "--cpu: expected a number"),
        (["--memory", "8GB", "train.py"], "--memory: expected an amount"),
        (["--storage", "x", "train.py"], "--storage: expected an amount"),
        (["--gpus", "-1", "train.py"], "--gpus: expected 0 to"),
        (["--user", "0", "train.py"], "--user: expected 1 to"),
        (["--namespace", "A", "train.py"], "--namespace: expected"),
        (["--env-from", "A", "train.py"], "--env-from: expected the name"),
        (["--service-account", "A", "train.py"], "--service-account: expected the name"),
        (["--storage-class", "A", "train.py"], "--storage-class: expected the name"),
        (["--image", "a b", "train.py"], "--image: expected an image"),
        (["--checkpoints", "cuts", "train.py"], "each container has its own disk"),
        (["train.py", "\udcff"], "UTF-8"),
    ],
)
def test_what_a_cluster_would_refuse_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    assert exit_code(monkeypatch, "manifests", "k8s", *NEEDED, *words) == 2
    shown = capsys.readouterr()
    assert told in shown.err
    assert not shown.out


def test_an_image_and_a_place_of_checkpoints_must_be_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for missing in ("--image", "--checkpoints"):
        at = NEEDED.index(missing)
        words = NEEDED[:at] + NEEDED[at + 2 :]
        assert exit_code(monkeypatch, "manifests", "k8s", *words, "train.py") == 2
        assert missing in capsys.readouterr().err
