"""What of the working folder goes to a cluster."""

import zipfile
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.launch.engines.ray import folder
from paceline.launch.engines.ray.folder import files_to_upload, pack, told_upload


def write(root: Path, *paths: str, size: int = 3) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"x" * size)


def test_what_a_job_and_others_have_made_stays_here(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "lib/model.py", "lib/runs/kept.txt")
    write(tmp_path, "runs/a/journal", ".git/HEAD", "lib/__pycache__/m.pyc", ".venv/bin/x")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")

    files = files_to_upload(tmp_path)

    paths = [one.path for one in files]
    assert paths == ["lib/model.py", "lib/runs/kept.txt", "train.py"]
    assert told_upload(tmp_path, files).endswith("goes to the cluster: 3 files, 0.0 MB")


def test_secrets_of_jobs_stay_here_wherever_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "train.py", "out/a/job.json", "out/a/secret", "lib/my-secret")
    monkeypatch.setenv("PACELINE_SECRET_FILE", str(tmp_path / "lib/my-secret"))

    assert [one.path for one in files_to_upload(tmp_path)] == ["train.py"]


def test_the_same_files_are_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path, "code/train.py", "code/run.sh")
    (tmp_path / "code/run.sh").chmod(0o755)
    root, archives = tmp_path / "code", [tmp_path / "a.zip", tmp_path / "b.zip"]

    for archive in archives:
        (root / "train.py").touch()
        pack(root, files_to_upload(root), archive)

    assert archives[0].read_bytes() == archives[1].read_bytes()
    with zipfile.ZipFile(archives[0]) as packed:
        assert packed.read("train.py") == b"xxx"
        assert packed.getinfo("run.sh").external_attr >> 16 == 0o755


def test_too_much_is_refused_and_the_largest_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "MOST_BYTES", 3 << 20)
    write(tmp_path, "a.bin", "b.bin", size=1 << 20)
    write(tmp_path, "data/c.bin", size=2 << 20)
    write(tmp_path, "train.py")

    with pytest.raises(UsageError) as refused:
        files_to_upload(tmp_path)

    told = str(refused.value)
    assert "4 files, 4.0 MB, where at most 3 MB are sent" in told
    assert "data/c.bin (2.0 MB), a.bin (1.0 MB), b.bin (1.0 MB)" in told
    assert "--no-upload" in told


def test_a_folder_of_countless_files_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "MOST_FILES", 2)
    write(tmp_path, "a", "b", "c", "d")

    with pytest.raises(UsageError, match="more than 2 files"):
        files_to_upload(tmp_path)
