"""Who waits for a word of shared memory wakes when another has changed it."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from paceline.transport.shared_memory import (
    LentMemory,
    bell_of,
    find_memory,
    is_supported,
    wait_change,
)

pytestmark = pytest.mark.skipif(not is_supported(), reason="no such memory here")

START, LIMIT_S = 24, 30.0
WAIT = """
import sys
import numpy as np
from paceline.transport.shared_memory import wait_change
from paceline.transport.shared_memory import find_memory
memory = find_memory(*map(int, sys.argv[1:]))
word = memory[24:32].view(np.int64)
print("waits", flush=True)
while word[0] == 5:
    wait_change(memory, 24, 5, 30.0)
print(word[0])
"""


@pytest.fixture
def lent() -> LentMemory:
    memory = LentMemory(4096)
    memory.array[START : START + 8].view(np.int64)[0] = 5
    return memory


def test_a_word_that_has_changed_is_not_waited_for(lent: LentMemory) -> None:
    wait_change(lent.array, START, 4, LIMIT_S)


def test_a_wait_ends_when_its_time_is_over(lent: LentMemory) -> None:
    wait_change(lent.array, START, 5, 0.001)


def test_all_who_wait_are_woken_also_those_who_may_only_read(lent: LentMemory) -> None:
    found = find_memory(os.getpid(), lent.fd, 4096)
    assert found is not None
    word = found[START : START + 8].view(np.int64)

    def wait() -> None:
        while word[0] == 5:
            wait_change(found, START, 5, LIMIT_S)

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    lent.array[START : START + 8].view(np.int64)[0] = 6
    bell_of(lent.array, START)()
    for thread in threads:
        thread.join(LIMIT_S / 2)
        assert not thread.is_alive()


@pytest.mark.slow
def test_another_process_is_woken(lent: LentMemory) -> None:
    arguments = [str(os.getpid()), str(lent.fd), "4096"]
    with subprocess.Popen(
        [sys.executable, "-c", WAIT, *arguments], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "waits\n"
        lent.array[START : START + 8].view(np.int64)[0] = 6
        bell_of(lent.array, START)()
        assert child.stdout.read() == "6\n"
