"""What torchrun is asked to do is read from its own command line, and variables."""

import pytest

from paceline.errors import UsageError
from paceline.launch.torchrun.found import Torchrun, is_in_torchrun, read_torchrun
from paceline.transport.address import TcpAddress

ROUND = {
    "TORCHELASTIC_RUN_ID": "7",
    "GROUP_WORLD_SIZE": "2",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "10.0.0.9",
    "MASTER_PORT": "1234",
}
ALONE = {**ROUND, "GROUP_WORLD_SIZE": "1"}
C10D = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "10.0.0.1:29500", "--rdzv-id", "7"]


def found(*options: str, **environment: str) -> Torchrun:
    """What is read where torchrun was typed with these options."""
    command = ["/bin/python", "/bin/torchrun", *options, "train.py", "--nnodes", "9"]
    return read_torchrun({**ROUND, **environment}, 11, command)


def test_only_its_processes_have_its_run() -> None:
    assert is_in_torchrun(ROUND)
    assert not is_in_torchrun({"RANK": "0", "WORLD_SIZE": "2"})


def test_machines_meet_where_the_rendezvous_is_and_not_where_a_round_says() -> None:
    meet = TcpAddress("10.0.0.1", 29500)
    assert found("--nnodes", "1:3", *C10D) == Torchrun("7", 11, 4, 2, 3, meet, True)


def test_without_a_rendezvous_of_its_own_they_meet_where_all_rounds_do() -> None:
    meet = TcpAddress("10.0.0.9", 1234)
    assert found("--nnodes=2", "--node-rank=1") == Torchrun("7", 11, 4, 2, 2, meet, False)


@pytest.mark.parametrize("options", [["--standalone", "--nproc-per-node", "4"], []])
def test_one_machine_is_alone(options: list[str]) -> None:
    one = found(*options, GROUP_WORLD_SIZE="1")
    assert one == Torchrun("7", 11, 4, 1, 1, None, False)


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "torch.distributed.run"],
        ["-u", "-m", "torch.distributed.launch"],
        ["/lib/torch/distributed/run.py"],
    ],
)
def test_it_is_known_by_each_way_to_start_it(words: list[str]) -> None:
    command = ["/bin/python", *words, "--nnodes", "1:5", *C10D, "train.py"]
    assert read_torchrun(ALONE, 11, command).most_machines == 5


@pytest.mark.parametrize(
    "command",
    [[], ["/bin/python", "my_launcher.py", "--nnodes", "1:5"], ["torchrun", "-x"]],
)
def test_another_launcher_has_as_many_machines_as_it_has_now(command: list[str]) -> None:
    assert read_torchrun(ROUND, 11, command).most_machines == 2
    assert read_torchrun(ROUND, 11, command).store == TcpAddress("10.0.0.9", 1234)


def test_an_endpoint_without_a_port_has_torchruns_own() -> None:
    there = found("--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "head")
    assert there.store == TcpAddress("head", 29400)


def test_options_may_be_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PET_NNODES", "1:4")
    monkeypatch.setenv("PET_RDZV_BACKEND", "c10d")
    monkeypatch.setenv("PET_RDZV_ENDPOINT", "10.0.0.3:5")
    there = found()
    assert (there.most_machines, there.store) == (4, TcpAddress("10.0.0.3", 5))


@pytest.mark.parametrize("name", ["GROUP_WORLD_SIZE", "LOCAL_WORLD_SIZE"])
def test_what_is_no_number_is_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}='many': expected a number"):
        found(**{name: "many"})


def test_a_store_that_is_no_address_is_refused() -> None:
    with pytest.raises(UsageError, match="where torchrun's machines meet"):
        found("--nnodes", "2", MASTER_PORT="")


def test_a_rendezvous_without_torchs_own_store_needs_a_launcher_by_itself() -> None:
    etcd = ("--nnodes", "1:3", "--rdzv-backend", "etcd-v2", "--rdzv-endpoint", "head:2379")
    with pytest.raises(UsageError, match=r"etcd-v2: expected one of c10d.*PACELINE_JOIN"):
        found(*etcd)

    joins = found(*etcd, PACELINE_JOIN="10.0.0.2:7070")
    assert joins.store == TcpAddress("head", 2379), "each round has the same"
    assert found("--rdzv-backend", "etcd-v2", GROUP_WORLD_SIZE="1").store is None
