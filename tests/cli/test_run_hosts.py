"""What a command line says of the machines that are to join by ssh."""

from pathlib import Path

import pytest

from paceline.cli import run as run_command
from paceline.cli.elsewhere import host as host_command
from paceline.launch.engines import SshEngine
from paceline.launch.engines.slurm import SlurmEngine
from paceline.launch.guests import JobOver
from paceline.launch.hosts import Capacity, HostPlan
from paceline.watch.summary import Ending, Verdict
from tests.cli.running import Runs, exit_code


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runs:
    """In a folder with a script, and an ssh of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "ssh.sh").write_text("echo hostname 127.0.0.1")
    stand_in = Runs(Verdict(Ending.TRAINED, ""))
    monkeypatch.setattr(run_command, "wait_local_run", stand_in)
    return stand_in


def test_hosts_listen_where_they_are_reached_and_all_are_awaited(
    monkeypatch: pytest.MonkeyPatch, runs: Runs
) -> None:
    options = ["--hosts", "a,b", "--ssh", "sh ssh.sh", "--checkpoints", "cuts"]

    assert exit_code(monkeypatch, "run", *options, "train.py") == 0

    listening = runs.reach.listening
    assert listening is not None
    assert str(listening.address) == "tcp:127.0.0.1:0"
    assert listening.begins_with(None) == 3
    assert listening.engine == SshEngine(("a", "b"), ("sh", "ssh.sh"))


def test_the_address_the_number_and_what_is_typed_may_be_given(
    monkeypatch: pytest.MonkeyPatch, runs: Runs
) -> None:
    given = ["--listen", "10.0.0.1:7070", "--await-hosts", 2, "--remote", "cd x"]
    options = ["--hosts", "a,b", *given, "--checkpoints", "cuts"]

    assert exit_code(monkeypatch, "run", *options, "train.py") == 0

    listening = runs.reach.listening
    assert listening is not None
    assert str(listening.address) == "tcp:10.0.0.1:7070"
    assert listening.begins_with(None) == 2
    assert listening.engine == SshEngine(("a", "b"), ("ssh",), "cd x")


def test_every_machine_takes_so_many_trainers_this_one_too(
    monkeypatch: pytest.MonkeyPatch, runs: Runs
) -> None:
    options = ["--hosts", "a,b", "--ssh", "sh ssh.sh", "--checkpoints", "cuts"]
    most = ["--trainers-per-host", "2"]

    assert exit_code(monkeypatch, "run", *options, *most, "train.py") == 0

    listening = runs.reach.listening
    assert listening is not None
    assert listening.capacity == Capacity(trainers=2)
    assert listening.trainers_per_host == 2


def test_what_others_are_told_and_the_ports_may_be_given(
    monkeypatch: pytest.MonkeyPatch, runs: Runs
) -> None:
    given = [
        "--listen",
        "127.0.0.1:7070",
        "--advertise",
        "a.example",
        "--ports",
        "7100-7109",
    ]

    assert exit_code(monkeypatch, "run", *given, "--checkpoints", "cuts", "train.py") == 0

    listening = runs.reach.listening
    assert listening is not None
    assert str(listening.address) == "tcp:a.example:7070@127.0.0.1"
    assert str(listening.own) == "tcp:a.example:7100-7109@127.0.0.1"


def test_the_environment_of_a_machine_says_it_as_well(
    monkeypatch: pytest.MonkeyPatch, runs: Runs
) -> None:
    monkeypatch.setenv("PACELINE_NETWORK", "127.0.0.0/8")
    monkeypatch.setenv("PACELINE_PORTS", "7100-7109")

    assert exit_code(monkeypatch, "run", "train.py") == 0
    assert runs.reach.listening is None  # one machine, whatever it is called

    options = ["--hosts", "a", "--checkpoints", "cuts"]
    assert exit_code(monkeypatch, "run", *options, "train.py") == 0
    listening = runs.reach.listening
    assert listening is not None
    assert str(listening.address) == "tcp:127.0.0.1:7100-7109"
    assert listening.their_ports == (0, 0)  # theirs may say something else

    assert exit_code(monkeypatch, "run", *options, "--ports", "1-9", "train.py") == 0
    listening = runs.reach.listening
    assert listening is not None
    assert listening.their_ports == listening.ports == (1, 9)


@pytest.mark.parametrize("words", [["run", "--coordinator-only"], ["role", "coordinator"]])
def test_who_leads_alone_takes_no_server_and_no_trainer(
    words: list[str], monkeypatch: pytest.MonkeyPatch, runs: Runs
) -> None:
    options = [
        "--listen",
        "10.0.0.1:7070",
        "--checkpoints",
        "cuts",
        "train.py",
        "--seed",
        7,
    ]

    assert exit_code(monkeypatch, *words, *options) == 0

    assert runs.script.arguments == ("--seed", "7")
    listening = runs.reach.listening
    assert listening is not None
    assert listening.capacity == Capacity(servers=0, trainers=0)


@pytest.mark.parametrize(
    ("words", "takes"),
    [
        (["host"], Capacity()),
        (["host", "--servers", "2"], Capacity(servers=2)),
        (["role", "server"], Capacity(servers=1, trainers=0)),
        (["role", "trainer"], Capacity(servers=0, trainers=1)),
    ],
)
def test_a_host_says_how_many_of_each_it_takes(
    words: list[str], takes: Capacity, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[HostPlan] = []
    monkeypatch.setenv("PACELINE_SECRET", "ab" * 32)
    monkeypatch.setattr(
        host_command, "wait_host", lambda plan, *_: plans.append(plan) or JobOver("over", 0)
    )

    assert exit_code(monkeypatch, *words, "--join", "127.0.0.1:7070") == 0

    assert [plan.capacity for plan in plans] == [takes]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ports", "7100-7109"], "--ports belong to --listen or --hosts"),
        (["--network", "eth0"], "--ports belong to --listen or --hosts"),
        (["--listen", ":7070"], "--listen :7070 stands for all addresses of this machine"),
        (["--listen", ":7070", "--network", "240.0.0.0/24"], "and there is none"),
        (["--listen", ":7070", "--ports", "7100"], "--ports 7100: expected a range"),
        (["--hosts", "a,a"], "a stands there twice"),
        (["--hosts=-oProxyCommand=x"], "got '-oProxyCommand=x'"),
        (["--hosts", "a", "--ssh", "sh ssh.sh"], "name a place that all machines reach"),
        (["--hosts", "a", "--ssh", "ssh '"], "--ssh ssh ': no words of a shell"),
        (["--hosts", "a", "--ssh", ""], "--ssh: expected a program"),
        (["--ssh", "ssh"], "--ssh and --remote belong to --hosts"),
        (["--coordinator-only"], "who only leads belongs to --listen"),
        (["--remote", "cd x"], "--ssh and --remote belong to --hosts"),
    ],
)
def test_what_cannot_be_is_refused_before_a_folder_is_made(
    options: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    runs: Runs,
    tmp_path: Path,
) -> None:
    assert exit_code(monkeypatch, "run", *options, "train.py") == 2

    assert said in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    assert runs.reach.listening is None


@pytest.fixture
def allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine is n1 of three."""
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-3]")
    monkeypatch.setenv("SLURMD_NODENAME", "n1")


@pytest.mark.usefixtures("allocation")
def test_the_machines_of_an_allocation_are_awaited(
    monkeypatch: pytest.MonkeyPatch, runs: Runs
) -> None:
    options = ["--engine", "slurm", "--network", "lo", "--checkpoints", "cuts"]

    assert exit_code(monkeypatch, "run", *options, "train.py") == 0

    listening = runs.reach.listening
    assert listening is not None
    assert str(listening.address) == "tcp:127.0.0.1:0"
    assert listening.begins_with(None) == 3
    assert listening.engine == SlurmEngine("17", ("n2", "n3"))
    assert listening.options() == ["--engine", "slurm"]


@pytest.mark.usefixtures("allocation")
def test_an_allocation_of_one_machine_is_this_machine_unless_others_are_awaited(
    monkeypatch: pytest.MonkeyPatch, runs: Runs
) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n1")
    alone = ["run", "--engine", "slurm", "--network", "lo"]

    assert exit_code(monkeypatch, *alone, "train.py") == 0
    assert runs.reach.listening is None

    more = ["--await-hosts", "1", "--checkpoints", "cuts"]
    assert exit_code(monkeypatch, *alone, *more, "train.py") == 0
    assert runs.reach.listening is not None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--engine", "slurm"], "expected to run in a job of SLURM"),
        (["--engine", "pbs"], "--engine: expected one of ray, slurm, got 'pbs'"),
        (["--engine", "slurm", "--hosts", "a"], "both say which machines come"),
    ],
)
def test_an_engine_that_is_not_there_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    told: str,
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    del runs
    assert exit_code(monkeypatch, "run", *options, "train.py") == 2
    assert told in capsys.readouterr().err
