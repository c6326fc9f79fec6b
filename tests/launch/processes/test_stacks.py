"""A process says where its threads stand, to who asks at the socket of its role."""

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.launch.processes.stacks import (
    offer_stacks,
    roles_with_stacks,
    stacks_here,
    wait_stacks,
)
from paceline.timing import Deadline, SystemClock


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="stk", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def test_every_thread_is_told_by_name_with_the_innermost_call_last() -> None:
    def waits_here(release: threading.Event) -> None:
        release.wait(30)

    release = threading.Event()
    thread = threading.Thread(target=waits_here, args=(release,), name="waiting")
    thread.start()
    stacks = stacks_here(left_out=0)
    release.set()
    thread.join()

    assert stacks.pid == os.getpid()
    main, *others = stacks.threads
    assert main.name == "MainThread"
    assert main.frames[-1].function == "stacks_here"
    [waiting] = [one for one in others if one.name == "waiting"]
    functions = [frame.function.rpartition(".")[2] for frame in waiting.frames]
    assert functions.index("waits_here") < functions.index("wait")
    assert waiting.frames[0].file.endswith("threading.py")


def test_other_processes_of_a_trainer_stand_behind_it_in_the_order_of_numbers(
    sockets: Path,
) -> None:
    for role in ("trainer-10", "trainer-2", "trainer-2.1", "server-0"):
        (sockets / f"{role}.stacks").touch()
    assert roles_with_stacks(sockets) == [
        "server-0",
        "trainer-2",
        "trainer-2.1",
        "trainer-10",
    ]


def test_who_is_gone_is_left_out_and_who_does_not_answer_is_said(sockets: Path) -> None:
    gone, silent = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    with gone, silent:
        gone.bind(str(sockets / "trainer-0.stacks"))
        silent.bind(str(sockets / "trainer-1.stacks"))
        silent.listen()
        deadline = Deadline(SystemClock(), 0.2)
        found = wait_stacks(sockets, ["trainer-0", "trainer-1", "trainer-2"], deadline)

    assert found == {"trainer-1": None}


def test_a_folder_that_takes_no_socket_is_no_obstacle(tmp_path: Path) -> None:
    before = threading.active_count()
    offer_stacks(tmp_path / "none", "trainer-0")
    assert threading.active_count() == before


def test_names_that_are_no_text_are_spelt_out_and_the_answerer_lives_on(
    sockets: Path,
) -> None:
    """A script may lie in a folder whose name is no UTF-8."""
    release, begun = threading.Event(), threading.Event()
    space = {"release": release, "begun": begun}
    source = "def odd():\n    begun.set()\n    release.wait(30)\n"
    exec(compile(source, "odd-\udcff.py", "exec"), space)
    thread = threading.Thread(target=space["odd"], name="odd \udcfe")
    thread.start()
    assert begun.wait(30)
    offer_stacks(sockets, "trainer-0")
    try:
        for _ in range(2):
            told = wait_stacks(sockets, ["trainer-0"], Deadline(SystemClock(), 30.0))
            stacks = told["trainer-0"]
            assert stacks is not None
            [odd] = [one for one in stacks.threads if one.name == "odd \\udcfe"]
            assert "odd-\\udcff.py" in {frame.file for frame in odd.frames}
    finally:
        release.set()
        thread.join()
