"""Hosts by ssh: what is typed, what is refused, and what is told of one that is gone."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paceline.errors import JobFailed, UsageError
from paceline.launch.engines import (
    BroughtJob,
    SshEngine,
    parse_hosts,
)
from paceline.launch.engines.ssh import address_towards, same_place
from paceline.launch.job import JobDir
from paceline.launch.processes.parent import is_gone
from paceline.timing import SystemClock
from paceline.transport.handshake import Secret
from tests.system.hosts import within

SECRET = Secret(b"\7" * 32)


def program(folder: Path, text: str) -> tuple[str, ...]:
    """An ssh of the test's own: a shell's words, which see the arguments of ssh."""
    path = folder / "ssh.sh"
    path.write_text(text)
    return ("sh", str(path))


def brought(
    job: JobDir, begins_with: int, say: Callable[[str], None] = print
) -> BroughtJob:
    """A job for which hosts are brought."""
    return BroughtJob(job, None, SECRET, (), begins_with, say, SystemClock())


class Started:
    """Hosts of a job, whose ssh is the test's own."""

    def __init__(self, folder: Path, text: str, hosts: str, begins_with: int) -> None:
        self.said: list[str] = []
        self.job = JobDir(folder)
        self.job.logs.mkdir()
        engine = SshEngine(parse_hosts(hosts), program(folder, text), "cd there")
        self.hosts = engine.bring(brought(self.job, begins_with, self.said.append))
        self.hosts.start("10.0.0.1:7070")

    def log(self, host: str) -> str:
        return self.job.log(f"{host}.ssh").read_text()


@pytest.fixture
def start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Started]]:
    monkeypatch.setattr("paceline.launch.engines.children.LEAVE_S", 0.1)
    made: list[Started] = []

    def make(text: str, hosts: str = "a,b", begins_with: int = 3) -> Started:
        made.append(Started(tmp_path, text, hosts, begins_with))
        return made[-1]

    yield make
    for one in made:
        one.hosts.close()


def test_names_are_those_that_ssh_takes() -> None:
    assert parse_hosts("a, me@b.example,10.0.0.2,fd00::2") == (
        *("a", "me@b.example"),
        *("10.0.0.2", "fd00::2"),
    )


@pytest.mark.parametrize(
    "hosts",
    ["", "a,", "-oProxyCommand=x", "a,-F", "me@-F", "a b", "a;b", "$(a)", "../a", "a,a"],
)
def test_what_could_be_no_name_or_stands_there_twice_is_refused(hosts: str) -> None:
    with pytest.raises(UsageError, match="--hosts: "):
        parse_hosts(hosts)


def test_what_is_typed_there_has_no_secret_and_ends_with_its_stdin() -> None:
    engine = SshEngine(("a",), ("ssh", "-p", "2222"), "cd x && . venv/bin/activate")

    assert engine.command("a", "[fd00::1]:7070") == [
        *("ssh", "-p", "2222", "-T", "-o", "ConnectTimeout=20"),
        *("-o", "ServerAliveInterval=15", "-o", "BatchMode=yes", "a"),
        "cd x && . venv/bin/activate && exec paceline host --join '[fd00::1]:7070' "
        "--name a --join-within 60s --end-with-stdin",
    ]


def test_by_default_it_is_the_launchers_folder_with_the_launchers_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "it's mine").mkdir()
    monkeypatch.chdir(tmp_path / "it's mine")
    monkeypatch.setattr("sys.executable", "/opt/my venv/bin/python")

    assert same_place() == (
        f"""cd '{tmp_path}/it'"'"'s mine' && PATH='/opt/my venv/bin':"$PATH\""""
    )
    told = SshEngine(("a",)).command("a", "10.0.0.1:7070", ["--plain", "--ports", "7-9"])
    assert " --plain --ports 7-9 " in told[-1]
    assert (
        SshEngine(("a",))
        .command("a", "10.0.0.1:7070")[-1]
        .startswith(f"{same_place()} && exec paceline host --join 10.0.0.1:7070 ")
    )


def test_the_secret_comes_by_stdin_alone(start: Callable[..., Started]) -> None:
    one = start('echo "$*"; env; read secret; echo "read: $secret"; read more', "a")

    within(10.0, "it is read", lambda: "read: " in one.log("a"))
    before, _, read = one.log("a").partition("read: ")
    assert read.strip() == SECRET.text()
    assert "-o BatchMode=yes a cd there && exec paceline host --join" in before
    assert SECRET.text() not in before


def test_the_users_own_secret_is_kept_from_ssh(
    start: Callable[..., Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_SECRET", SECRET.text())
    one = start("env; read secret; echo done; read more", "a")

    within(10.0, "it is read", lambda: "done" in one.log("a"))
    assert "PATH=" in one.log("a")
    assert SECRET.text() not in one.log("a")


def test_a_host_that_is_not_reached_fails_the_job_in_the_words_of_ssh(
    start: Callable[..., Started],
) -> None:
    refused = "ssh: connect to host b port 22: Connection refused"
    one = start(f'case "$*" in *"--name b "*) echo {refused}; exit 255;; esac; cat >&2')
    within(10.0, "it is told", lambda: len(one.said) > 1)

    with pytest.raises(JobFailed, match="ssh to b has ended with exit code 255") as failed:
        one.hosts.check()

    assert str(failed.value).endswith(refused)
    assert "-o BatchMode=yes b true" in str(failed.value)
    assert one.said[1:] == [
        f"ssh to b has ended with exit code 255: {refused}; a host that is gone is not "
        "started again"
    ]


def test_another_end_names_what_was_typed(start: Callable[..., Started]) -> None:
    one = start("echo sh: exec: paceline: not found; exit 127", "a", 2)
    within(10.0, "it is told", lambda: len(one.said) > 1)

    with pytest.raises(JobFailed, match=re.escape("typed: cd there && exec paceline host")):
        one.hosts.check()


def test_a_job_that_can_begin_with_fewer_hosts_does(start: Callable[..., Started]) -> None:
    one = start("exit 255", "a,b", 2)
    within(10.0, "both are told", lambda: len(one.said) == 3)
    with pytest.raises(JobFailed):
        one.hosts.check()

    one.hosts.close()
    spared = SshEngine(("a", "b")).bring(brought(one.job, 1))
    spared._num_gone = 2
    spared.check()


def test_hosts_end_once_stdin_is_closed_and_nothing_is_said_of_it(
    start: Callable[..., Started],
) -> None:
    one = start('read secret; echo read; cat >&2; echo "closed"')
    within(10.0, "it is read", lambda: "read" in one.log("a") + one.log("b"))

    one.hosts.expect_end()
    one.hosts.close()

    assert one.log("a") == one.log("b") == "read\nclosed\n"
    assert len(one.said) == 1


def test_an_ssh_that_does_not_end_is_killed_with_all_that_it_has_started(
    start: Callable[..., Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CLOSED_S", "GRACE_S"):
        monkeypatch.setattr(f"paceline.launch.engines.children.{name}", 0.1)
    one = start('trap "" TERM; sleep 1000 & echo $! is there; wait; wait', "a")
    within(10.0, "it is there", lambda: "is there" in one.log("a"))

    one.hosts.close()

    pid = int(one.log("a").split()[0])
    within(10.0, "it is gone", lambda: is_gone(pid))


def test_a_program_that_is_not_there_is_refused(tmp_path: Path) -> None:
    engine = SshEngine(("a",), ("no-such-ssh",))
    job = JobDir(tmp_path)
    job.logs.mkdir()
    hosts = engine.bring(brought(job, 2))

    with pytest.raises(UsageError, match="cannot run no-such-ssh: No such file"):
        hosts.start("10.0.0.1:7070")
    with pytest.raises(UsageError, match="cannot run no-such-ssh -G a"):
        address_towards(engine, (0, 0))


def test_the_address_to_listen_at_is_the_one_that_leads_to_the_hosts(
    tmp_path: Path,
) -> None:
    both = program(tmp_path, "echo user me; echo hostname 127.0.0.1; echo port 2222")

    assert str(address_towards(SshEngine(("a", "b"), both), (0, 0))) == "tcp:127.0.0.1:0"


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("echo hostname no.such.name.invalid", "takes a for the machine no.such.name"),
        ("echo hostname 127.0.0.1; echo proxyjump gate", "leads over another machine"),
        ('test "$2" = a && echo hostname 127.0.0.1 || echo hostname ::1', "::1 leads to b"),
        ("echo bad option >&2; exit 255", "-G a: bad option"),
    ],
)
def test_where_no_one_address_is_known_it_is_to_be_named(
    told: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        address_towards(SshEngine(("a", "b"), program(tmp_path, told)), (0, 0))
