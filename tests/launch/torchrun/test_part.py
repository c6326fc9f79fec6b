"""A machine goes on with the job that its own torchrun has led here, and with no other."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.launch.job import UserScript
from paceline.launch.torchrun.found import Torchrun
from paceline.launch.torchrun.part import TakingPart
from paceline.launch.torchrun.wishes import Wishes

ALONE = Torchrun("7", 11, 4, 1, 1, None, is_elastic=False, started=500)


def part(folder: Path, torchrun: Torchrun = ALONE) -> TakingPart:
    """What a daemon of this torchrun takes part with."""
    nobody: Any = SimpleNamespace()
    script, led = UserScript("train.py", ()), folder / "led"
    wishes = Wishes(folder=folder / "job")
    return TakingPart(torchrun, wishes, script, {}, led, nobody, nobody, nobody)


def begin(folder: Path) -> None:
    """A job of `ALONE`, whose daemon was killed."""
    run = part(folder)._run()
    assert not run.is_resumed
    run.job.claim(run.config, "train.py")


def test_the_next_daemon_of_the_same_torchrun_goes_on(tmp_path: Path) -> None:
    begin(tmp_path)

    led = part(tmp_path).job_led()
    assert led is not None
    assert led.path == tmp_path / "job"
    assert part(tmp_path)._run().is_resumed


@pytest.mark.parametrize("other", [{"parent": 12}, {"started": 501}])
def test_another_torchrun_under_the_same_id_does_not(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    begin(tmp_path)

    assert part(tmp_path, ALONE._replace(**other)).job_led() is None
    assert not (tmp_path / "led").exists(), "nor does anybody later"
    assert not part(tmp_path, ALONE._replace(**other))._run().is_resumed


def test_a_file_that_was_cut_short_names_no_job(tmp_path: Path) -> None:
    (tmp_path / "led").write_text(ALONE.nonce)

    assert part(tmp_path).job_led() is None
