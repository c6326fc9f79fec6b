"""How a process learns which job it belongs to."""

from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.launch.job.commands import UserScript, role_command, with_failpoints
from paceline.launch.job.environment import Place, read_place, read_quiet, trainer_threads
from paceline.transport.handshake import Secret

SCRIPT = UserScript("train.py", ["--lr", "3"])


SECRET = Secret(bytes(range(32)))
TCP = "tcp:127.0.0.1:4711"


def place(
    role: str,
    coordinator: str = "unix:/s/coordinator.sock",
    secret: Secret | None = None,
) -> Place:
    return Place("r1", role, Path("/job"), coordinator, Path("/s"), 17, secret)


def test_a_place_comes_back_from_its_variables() -> None:
    assert read_place(place("trainer-1").variables()) == place("trainer-1")


def test_the_secret_travels_by_environment_and_by_nothing_else() -> None:
    over_tcp = place("trainer-1", TCP, SECRET)
    command = role_command(over_tcp, SCRIPT, {}, threads=1)

    assert command.environment["PACELINE_SECRET"] == SECRET.text()
    assert read_place(command.environment) == over_tcp
    assert SECRET.text() not in " ".join(command.script)
    assert SECRET.text() not in repr(over_tcp)


def test_over_unix_sockets_no_secret_is_handed_on_or_read() -> None:
    assert "PACELINE_SECRET" not in place("trainer-1").variables()
    strays = {**place("trainer-1").variables(), "PACELINE_SECRET": "of another job"}
    assert read_place(strays) == place("trainer-1")


def test_a_place_over_tcp_without_a_secret_says_what_is_missing() -> None:
    with pytest.raises(UsageError, match="but PACELINE_SECRET is not set"):
        read_place(place("trainer-1", TCP).variables())


def test_a_server_is_told_where_to_listen() -> None:
    where = place("server-0")._replace(address="unix:/s/server-0.sock")
    assert read_place(where.variables()) == where
    with pytest.raises(UsageError, match="but PACELINE_ADDRESS is not set"):
        read_place(place("server-0").variables())


def test_a_damaged_secret_is_refused_and_not_repeated() -> None:
    variables = {**place("trainer-1", TCP).variables(), "PACELINE_SECRET": "tell-nobody"}

    with pytest.raises(UsageError, match="PACELINE_SECRET: expected") as refused:
        read_place(variables)
    assert "tell-nobody" not in str(refused.value)


def test_an_environment_without_a_role_names_no_job() -> None:
    assert read_place({"PACELINE_JOB_DIR": "/somewhere"}) is None


@pytest.mark.parametrize(("said", "is_quiet"), [(None, False), ("0", False), ("1", True)])
def test_a_job_of_its_own_is_quiet_if_the_user_says_so(
    said: str | None, is_quiet: bool
) -> None:
    assert read_quiet({} if said is None else {"PACELINE_QUIET": said}) is is_quiet


def test_a_job_named_by_halves_is_an_error_that_says_what_is_missing() -> None:
    with pytest.raises(
        UsageError, match="PACELINE_RUN, PACELINE_COORDINATOR, PACELINE_LAUNCHER"
    ):
        read_place(
            {
                "PACELINE_ROLE": "trainer-0",
                "PACELINE_JOB_DIR": "/job",
                "PACELINE_SOCKETS": "/s",
            }
        )


def test_a_launcher_that_is_no_process_id_is_refused() -> None:
    variables = {**place("trainer-0").variables(), "PACELINE_LAUNCHER": "me"}

    with pytest.raises(UsageError, match="PACELINE_LAUNCHER='me' is no process id"):
        read_place(variables)


@pytest.mark.parametrize(
    ("cores", "trainers", "threads"), [(8, 2, 4), (2, 4, 1), (7, 2, 3), (1, 1, 1)]
)
def test_trainers_share_the_cores(cores: int, trainers: int, threads: int) -> None:
    assert trainer_threads(cores, trainers) == threads


def test_a_trainer_runs_the_script_with_its_arguments() -> None:
    command = role_command(place("trainer-0"), SCRIPT, {"HOME": "/h"}, threads=4)

    assert command.script == ("train.py", "--lr", "3")
    assert command.environment["OMP_NUM_THREADS"] == "4"
    assert command.environment["HOME"] == "/h"
    assert read_place(command.environment) == place("trainer-0")


def test_threads_that_the_user_set_are_kept_for_trainers_and_one_for_servers() -> None:
    base = {"OMP_NUM_THREADS": "7"}

    trainer = role_command(place("trainer-0"), SCRIPT, base, threads=4)
    server = role_command(place("server-0"), SCRIPT, base, threads=4)

    assert trainer.environment["OMP_NUM_THREADS"] == "7"
    assert server.environment["OMP_NUM_THREADS"] == "1"
    assert server.script == ()


def test_armed_failpoints_share_one_budget_in_the_job_folder() -> None:
    folder = Path("/job/failpoints")
    armed = {"PACELINE_FAILPOINTS": "x=kill@1"}
    own = {**armed, "PACELINE_FAILPOINTS_DIR": "/mine"}

    assert with_failpoints({}, folder) == {}
    assert with_failpoints(armed, folder)["PACELINE_FAILPOINTS_DIR"] == str(folder)
    assert with_failpoints(own, folder) == own
