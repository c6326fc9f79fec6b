"""What the kernel says of a process."""

import os
import signal
import subprocess
import sys

from paceline.launch.processes.parent import signs_of_life


def test_signs_of_life_grow_while_a_process_works() -> None:
    before = signs_of_life(os.getpid())
    assert before is not None
    while signs_of_life(os.getpid()) == before:
        sum(range(10_000))


def test_a_stopped_process_shows_none() -> None:
    endless = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    with subprocess.Popen(endless, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        stopped = signs_of_life(process.pid)
        sum(range(3_000_000))
        assert stopped is not None
        assert signs_of_life(process.pid) == stopped
        process.kill()


def test_nobody_shows_none() -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    assert signs_of_life(ended.pid) is None
