"""torchrun is found above a process, whatever is between."""

from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.launch.torchrun.above import Above, find_torchrun

ENVIRON = {"TORCHELASTIC_RUN_ID": "7"}
BELOW = "TORCHELASTIC_RUN_ID=7"
TORCHRUN = ["/bin/python", "/bin/torchrun", "--standalone", "train.py"]


class Processes:
    """What the kernel would say of processes."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc

    def add(
        self, pid: int, parent: int, *words: str, environ: str = "A=1", maps: str = ""
    ) -> None:
        """One that was started at ``pid * 100``."""
        at = self._proc / str(pid)
        at.mkdir()
        fields = ["S", str(parent), *["0"] * 17, str(pid * 100), "0"]
        (at / "stat").write_text(f"{pid} (a (b) c) {' '.join(fields)}")
        (at / "cmdline").write_text("".join(f"{word}\0" for word in words))
        (at / "environ").write_text(f"X=y\0{environ}\0")
        (at / "maps").write_text(maps)

    def found(self, parent: int) -> Above:
        """What is found from there."""
        return find_torchrun(ENVIRON, parent, self._proc)


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    found = Processes(tmp_path)
    found.add(1, 0, "/sbin/init")
    return found


def test_the_parent_is_torchrun(processes: Processes) -> None:
    processes.add(10, 1, *TORCHRUN)
    assert processes.found(10) == Above(10, 1000, TORCHRUN)


@pytest.mark.parametrize(
    "wrapper", [["/bin/sh", "./wrap.sh"], ["nsys", "profile", "python", "run.py", "data"]]
)
def test_all_processes_below_wrappers_have_one_torchrun(
    processes: Processes, wrapper: list[str]
) -> None:
    processes.add(10, 1, *TORCHRUN)
    processes.add(11, 10, *wrapper, environ=BELOW)
    processes.add(12, 10, *wrapper, environ=BELOW, maps="/lib/libtorch_cpu.so")
    assert processes.found(11) == processes.found(12) == Above(10, 1000, TORCHRUN)


def test_it_may_be_the_first_of_a_container(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.add(1, 0, *TORCHRUN)
    assert processes.found(1).pid == 1


def test_another_launcher_by_torchs_agent_is_known_by_torch(processes: Processes) -> None:
    words = ["/bin/python", "/bin/accelerate", "launch", "train.py"]
    processes.add(10, 1, *words, maps="7f00 r-xp /lib/torch/lib/libtorch_cpu.so\n")
    assert processes.found(10) == Above(10, 1000, words)


@pytest.mark.parametrize("parent", [1, 11, 99])
def test_a_torchrun_that_has_gone_is_not_what_its_processes_fell_to(
    processes: Processes, parent: int
) -> None:
    processes.add(11, 1, "/bin/sh", "./wrap.sh", environ=BELOW)
    with pytest.raises(UsageError, match="no torchrun is found above it"):
        processes.found(parent)
