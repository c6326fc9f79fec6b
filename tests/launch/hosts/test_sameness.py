"""What a machine must have as the launcher has it, and what is only said."""

from pathlib import Path

import msgspec
import pytest

from paceline.config import JobConfig
from paceline.errors import StoreError, UsageError
from paceline.launch.hosts import sameness
from paceline.launch.hosts.sameness import check_same, described, versions
from paceline.launch.job import UserScript
from paceline.messages.hosts import HostJoined
from paceline.store.blobs import BlobStore
from paceline.store.cuts import Claim, claim_place


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostJoined:
    """What a launcher tells that started ``train.py`` in this folder."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('hello')\n")
    config = JobConfig(run="r", checkpoints=str(tmp_path / "cuts"))
    store = BlobStore(config.checkpoints)
    store.make_root()
    claim_place(store, Claim(job="r", run="r", holder="me", folder="here"))
    return HostJoined(
        host="host-1",
        config=config,
        script=described(UserScript("train.py", ("--fast",))),
        coordinator="tcp:10.0.0.1:5",
        versions=versions(),
    )


def test_the_same_machine_has_all_that_is_needed(joined: HostJoined) -> None:
    said: list[str] = []

    check_same(joined, said.append)

    assert said == []
    assert not list(Path("cuts").glob("*.probe"))


def test_another_script_is_refused(joined: HostJoined) -> None:
    Path("train.py").write_text("print('hi')\n")

    with pytest.raises(UsageError, match=r"train.py in .* is not what the launcher runs"):
        check_same(joined, print)


def test_a_missing_script_is_refused_with_what_to_do(joined: HostJoined) -> None:
    Path("train.py").unlink()

    with pytest.raises(UsageError, match=r"no script 'train.py' in .*the same files"):
        check_same(joined, print)


def test_a_missing_plugin_is_refused(joined: HostJoined) -> None:
    config = msgspec.structs.replace(joined.config, plugins=("/nowhere/rule.py",))

    with pytest.raises(UsageError, match=r"no file /nowhere/rule.py on this machine"):
        check_same(msgspec.structs.replace(joined, config=config), print)


@pytest.mark.parametrize("there", ["nothing", "run other"])
def test_checkpoints_elsewhere_are_refused(there: str, joined: HostJoined) -> None:
    if there == "nothing":
        Path("cuts").rename("away")
    else:
        store = BlobStore(joined.config.checkpoints)
        claim_place(store, Claim(job="r", run="other", holder="me", folder="here"))

    with pytest.raises(UsageError, match=rf"\(found {there} there\).*--checkpoints"):
        check_same(joined, print)


def test_checkpoints_that_cannot_be_written_may_be_tomorrow(
    joined: HostJoined, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: object) -> None:
        raise StoreError("503 slow down")

    monkeypatch.setattr(BlobStore, "write", write)
    with pytest.raises(StoreError, match=r"cannot be written from here: 503 slow down"):
        check_same(joined, print)


def test_another_paceline_is_refused_and_another_torch_is_said(
    joined: HostJoined, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {**joined.versions, "torch": "1.0"}
    monkeypatch.setattr(sameness, "versions", lambda: here)
    said: list[str] = []
    check_same(joined, said.append)
    assert said == [
        f"torch 1.0 is installed here, and {joined.versions['torch']} at the launcher: "
        "results may differ"
    ]

    here["paceline"] = "0.0.1"
    with pytest.raises(UsageError, match=r"paceline 0.0.1 is installed here, and"):
        check_same(joined, said.append)
