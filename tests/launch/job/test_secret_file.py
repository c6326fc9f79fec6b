"""The run's secret lies in the job folder, for its owner only."""

import os
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.launch.job.files import read_secret, remove_secret, write_secret
from paceline.launch.job.folder import JobDir
from paceline.transport.handshake import Secret


def test_only_the_owner_can_read_it_whatever_the_umask(tmp_path: Path) -> None:
    secret, path = Secret.fresh(), tmp_path / "secret"
    before = os.umask(0)
    try:
        write_secret(path, secret)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_secret(path) == secret


def test_no_file_is_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    assert read_secret(path) is None
    write_secret(path, Secret.fresh())
    remove_secret(path)
    remove_secret(path)
    assert read_secret(path) is None


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_secret_that_others_can_read_is_none(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    write_secret(path, Secret.fresh())
    path.chmod(mode)
    with pytest.raises(UsageError, match=f"mode 0600, got .* mode 0{mode:o}"):
        read_secret(path)


def test_a_file_made_before_is_not_written_into(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "secret", tmp_path / "elsewhere"
    elsewhere.touch(0o644)
    path.symlink_to(elsewhere)
    secret = Secret.fresh()
    write_secret(path, secret)
    assert elsewhere.read_bytes() == b""
    assert not path.is_symlink()
    assert read_secret(path) == secret


def test_what_lies_there_instead_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"\xffrubbish")
    path.chmod(0o600)
    with pytest.raises(UsageError, match="secret") as refused:
        read_secret(path)
    assert "rubbish" not in str(refused.value)
    path.write_text("rubbish")
    with pytest.raises(UsageError, match="64 hexadecimal digits") as refused:
        read_secret(path)
    assert "rubbish" not in str(refused.value)


def test_the_secret_of_a_killed_run_is_gone_when_the_job_goes_on(tmp_path: Path) -> None:
    job = JobDir(tmp_path)
    job.claim(JobConfig(run="r1"), "train.py")
    write_secret(job.secret, Secret.fresh())
    job.claim_again(JobConfig(run="r2"), "train.py", print)
    assert read_secret(job.secret) is None
