"""What leads from this machine to itself under two names: Debian's sshd, or a stand-in."""

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.system.hosts import within

SSHD = "/usr/sbin/sshd"
NO_SSHD = f"there is no {SSHD}: apt-get install openssh-server openssh-client"

STAND_IN = """
case "$*" in *" -G "*|"-G "*) echo hostname 127.0.0.1; echo port 22; exit;; esac
for last; do :; done
exec sh -c "$last"
"""


def has_sshd() -> bool:
    """Whether an sshd could be started, and reached."""
    return Path(SSHD).exists() and shutil.which("ssh") is not None


def as_here(folder: Path) -> str:
    """What ``--remote`` types so that the tests' own paceline is found."""
    programs = shlex.quote(str(Path(sys.executable).parent))
    path = shlex.quote(os.environ.get("PYTHONPATH", ""))
    return (
        f"cd {shlex.quote(str(folder))} && export OMP_NUM_THREADS=1 PYTHONPATH={path} "
        f'PATH={programs}:"$PATH"'
    )


def stand_in(folder: Path) -> str:
    """The ``--ssh`` of a program that runs here what it is to run elsewhere."""
    program = folder / "ssh.sh"
    program.write_text(STAND_IN)
    return f"sh {shlex.quote(str(program))}"


@contextmanager
def sshd(folder: Path) -> Iterator[str]:
    """An sshd at a port of loopback; yields the ``--ssh`` to which a, b and stranger lead.

    The last has a key that it does not let in.
    """
    for name in ("host_key", "key", "other_key"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(make, check=True, stdin=subprocess.DEVNULL)
    (folder / "key.pub").rename(folder / "authorized")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nPidFile none\n"
        "UsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\n"
    )
    hosts = "".join(
        f"Host {name}\n  IdentityFile {folder}/{key}\n"
        for name, key in (("a", "key"), ("b", "key"), ("stranger", "other_key"))
    )
    (folder / "ssh_config").write_text(
        f"{hosts}Host *\n  HostName 127.0.0.1\n  Port {port}\n  User {getpass.getuser()}\n"
        "  IdentitiesOnly yes\n  StrictHostKeyChecking accept-new\n"
        f"  UserKnownHostsFile {folder}/known_hosts\n"
    )
    if os.geteuid() == 0:  # it leaves its rights behind there
        with suppress(FileExistsError):
            Path("/run/sshd").mkdir(mode=0o755)
    log = folder / "sshd.txt"
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", str(folder / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        within(10.0, "sshd listens", lambda: "listening on" in log.read_text())
        yield f"ssh -F {shlex.quote(str(folder / 'ssh_config'))}"
    finally:
        daemon.terminate()
        daemon.wait(10.0)
