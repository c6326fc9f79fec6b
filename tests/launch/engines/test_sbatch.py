"""What is submitted to SLURM is read by a shell, and says what it is for."""

import shutil
import subprocess

import pytest

from paceline.launch.engines import BatchJob, host_script, run_script

BATCH = BatchJob("train", 3, ("--time=1:00:00", "--signal=USR1@300"), "/opt/my venv/bin")
RUN = run_script(BATCH, ["--trainers", "4", "my train.py", "--x"], has_checkpoints=False)
HOST = host_script(BATCH._replace(nodes=1), "/shared/my job", ["--servers", "0"])


@pytest.mark.parametrize("text", [RUN, HOST])
def test_a_shell_reads_it(text: str) -> None:
    read = subprocess.run(
        ["bash", "-n"], input=text, text=True, capture_output=True, check=False
    )
    assert read.returncode == 0, read.stderr


@pytest.mark.around
@pytest.mark.skipif(
    shutil.which("shellcheck") is None, reason="shellcheck is not installed"
)
@pytest.mark.parametrize("text", [RUN, HOST])
def test_shellcheck_finds_nothing(text: str) -> None:
    command = ["shellcheck", "-"]
    read = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    assert read.returncode == 0, read.stdout


def test_a_run_is_kept_by_its_job_and_goes_on_after_a_requeue() -> None:
    lines = RUN.splitlines()

    options = [
        line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")
    ]
    assert {"--nodes=3", "--ntasks-per-node=1", "--requeue", "--open-mode=append"} < set(
        options
    )
    assert options[-2:] == ["--time=1:00:00", "--signal=USR1@300"], "the user's count"
    assert "PATH='/opt/my venv/bin':\"$PATH\"" in lines
    assert "job=runs/slurm-$id" in lines
    assert '--checkpoints "$PWD/$job/checkpoints"' in RUN
    assert "  --trainers 4 'my train.py' --x" in lines
    assert ' --job-dir "$job" --resume-if-begun ' in RUN
    assert 'scontrol requeue "$id"' in RUN


def test_a_name_of_a_file_is_one_word_for_slurm() -> None:
    batch = BATCH._replace(name="x\ntouch pwned #")

    lines = run_script(batch, ["x.py"], has_checkpoints=False).splitlines()

    assert "#SBATCH --job-name=x-touch-pwned-" in lines
    assert not any(line.startswith("touch") for line in lines)


def test_where_checkpoints_are_is_said_once() -> None:
    words = ["--checkpoints", "s3://bucket/cuts", "train.py"]
    assert run_script(BATCH, words, has_checkpoints=True).count("--checkpoints") == 1


def test_machines_join_by_the_jobs_folder() -> None:
    assert "  paceline host --join '/shared/my job' --servers 0\n" in HOST
    assert 'scontrol requeue "$id"' in HOST


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"SLURM_JOB_ID": "19"}, "19"),
        (
            {
                "SLURM_JOB_ID": "19",
                "SLURM_ARRAY_JOB_ID": "17",
                "SLURM_ARRAY_TASK_ID": "3",
            },
            "17_3",
        ),
    ],
)
def test_one_of_a_job_array_is_named_as_slurm_names_it(
    environment: dict[str, str], named: str
) -> None:
    before, _, _ = RUN.partition("# A step")
    shell = subprocess.run(
        ["bash", "-c", f'{before}\necho "$id $job"'],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shell.stdout == f"{named} runs/slurm-{named}\n"
