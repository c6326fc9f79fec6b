"""What the user of torchrun says in variables is what the job is."""

from pathlib import Path
from typing import Any

import pytest

from paceline.config import Async, Sync
from paceline.errors import UsageError
from paceline.launch.guests import Arrive
from paceline.launch.job import UserScript
from paceline.launch.torchrun.found import Torchrun
from paceline.launch.torchrun.wishes import (
    Wishes,
    digest_of,
    read_wishes,
    refusal,
    told_to_go_on,
)
from paceline.transport.address import TcpAddress

MEET = TcpAddress("10.0.0.1", 29500)
SEVERAL = Torchrun("7", 11, 4, 2, 3, MEET, is_elastic=True)
ALONE = Torchrun("7", 11, 4, 1, 1, None, is_elastic=False)


def test_nothing_has_to_be_said_where_there_is_one_machine() -> None:
    wishes = read_wishes({}, ALONE)

    assert wishes == Wishes()
    config = wishes.config("r", ALONE)
    assert (config.trainers, config.max_trainers, config.servers) == (1, 4, 1)
    assert config.pace == Sync()


def test_what_is_said_is_what_the_job_is(tmp_path: Path) -> None:
    said = {
        "PACELINE_CHECKPOINTS": str(tmp_path),
        "PACELINE_SERVERS": "3",
        "PACELINE_PACE": "async",
        "PACELINE_JOB_DIR": "job",
        "PACELINE_PLAIN": "1",
    }
    wishes = read_wishes(said, SEVERAL)

    assert wishes == Wishes(str(tmp_path), 3, "async", Path("job"), None, True)
    config = wishes.config("r", SEVERAL)
    assert (config.trainers, config.max_trainers, config.servers) == (1, 12, 3)
    assert (config.pace, config.checkpoints) == (Async(), str(tmp_path))


def test_several_machines_need_a_place_that_all_reach_or_another_launcher() -> None:
    with pytest.raises(UsageError, match="on 3 machines"):
        read_wishes({}, SEVERAL)

    wishes = read_wishes({"PACELINE_JOIN": "10.0.0.2:7070"}, SEVERAL)
    assert wishes.join == TcpAddress("10.0.0.2", 7070)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PACELINE_SERVERS", "0"),
        ("PACELINE_JOIN", "nowhere"),
        ("PACELINE_PACE", "fast"),
        ("PACELINE_PLAIN", "true"),
    ],
)
def test_what_says_nothing_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=name):
        read_wishes({name: text}, ALONE)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PACELINE_SERVERS", "2"),
        ("PACELINE_PACE", "async"),
        ("PACELINE_JOB_DIR", "job"),
        ("PACELINE_CHECKPOINTS", "cuts"),
    ],
)
def test_what_the_launcher_says_is_not_said_by_who_joins(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"{name} with PACELINE_JOIN: the launcher"):
        read_wishes({name: text, "PACELINE_JOIN": "10.0.0.2:7070"}, ALONE)


def meant(*arguments: str, text: bytes = b"", **wishes: Any) -> str:
    """The digest of a job."""
    script = UserScript("train.py", arguments)
    return digest_of(Wishes(**wishes), script, text, SEVERAL)


def test_a_torchrun_that_is_started_again_comes_to_the_same_job() -> None:
    again = Arrive(12, "12-9", meant("--lr", "1", "--local-rank=3"))
    assert refusal(again, SEVERAL, meant("--lr", "1"), "train.py", 60.0) == ""


def test_who_goes_on_with_the_job_of_an_earlier_torchrun_is_told_so() -> None:
    said = told_to_go_on(Arrive(12, "12-9"), SEVERAL, "train.py")
    assert said.startswith("goes on with the job of train.py that another torchrun (proc")
    assert "to begin anew, take another --rdzv-id" in said
    assert not told_to_go_on(Arrive(11, SEVERAL.nonce), SEVERAL, "train.py")


def test_processes_of_one_torchrun_may_have_arguments_of_their_own() -> None:
    own = Arrive(11, SEVERAL.nonce, meant("--gpu", "1"))
    assert refusal(own, SEVERAL, meant("--gpu", "0"), "train.py", 60.0) == ""


@pytest.mark.parametrize(
    "wish",
    [meant("--lr", "2"), meant("--lr", "1", servers=2), meant("--lr", "1", text=b"pass")],
)
def test_another_job_under_the_same_id_is_refused_and_told_which_is_held(
    wish: str,
) -> None:
    said = refusal(Arrive(12, "12-9", wish), SEVERAL, meant("--lr", "1"), "train.py", 60.0)
    assert "holds the job of train.py" in said
    assert "process 11, --rdzv-id 7" in said
    assert "wait 60 s" in said
    assert "another --rdzv-id" in said
