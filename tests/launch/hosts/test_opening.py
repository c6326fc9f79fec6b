"""How machines are let in is said as it was typed, for the run that goes on."""

import pytest

from paceline.launch.engines import SshEngine
from paceline.launch.hosts import Capacity, Listening
from paceline.transport.address import TcpListening

HERE = TcpListening("10.0.0.1", "10.0.0.1", 7070, 7070)


@pytest.mark.parametrize(
    ("listening", "typed"),
    [
        (Listening(HERE), "--listen 10.0.0.1:7070"),
        (Listening(HERE, hosts=3), "--listen 10.0.0.1:7070 --await-hosts 3"),
        (
            Listening(HERE, capacity=Capacity(trainers=4), most_trainers=4),
            "--listen 10.0.0.1:7070 --trainers-per-host 4",
        ),
        (
            Listening(TcpListening("door", "::", 7, 7), is_plain=True, ports=(7100, 7199)),
            "--listen [::]:7 --advertise door --ports 7100-7199 --plain",
        ),
        (
            Listening(
                TcpListening("10.0.0.1", "10.0.0.1"),
                engine=SshEngine(("a", "me@b"), ("ssh", "-p", "22"), "cd x"),
                capacity=Capacity(servers=0, trainers=0),
            ),
            "--hosts a,me@b --ssh ssh -p 22 --remote cd x --coordinator-only",
        ),
    ],
)
def test_it_is_said_in_options(listening: Listening, typed: str) -> None:
    assert " ".join(listening.options()) == typed
