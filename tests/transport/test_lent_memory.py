"""Lent memory is found by others of the host, read, and never written or left over."""

import gc
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.transport.shared_memory import LentMemory, find_memory, is_supported

pytestmark = pytest.mark.skipif(not is_supported(), reason="stores may be seen otherwise")

SIZE = 10_000
READ = """
import sys
from paceline.transport.shared_memory import find_memory
found = find_memory(*map(int, sys.argv[1:]))
print("nothing" if found is None else found[-1])
"""


@pytest.fixture
def lent() -> LentMemory:
    return LentMemory(SIZE)


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_what_the_owner_writes_is_seen(lent: LentMemory) -> None:
    found = find_memory(os.getpid(), lent.fd, SIZE)
    assert found is not None
    lent.array[:] = 7
    assert (found == 7).all()


@pytest.mark.slow
def test_another_process_sees_it(lent: LentMemory) -> None:
    lent.array[-1] = 42
    arguments = [str(os.getpid()), str(lent.fd), str(SIZE)]
    done = subprocess.run(
        [sys.executable, "-c", READ, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "42"


def test_nobody_else_can_write_to_it(lent: LentMemory) -> None:
    found = find_memory(os.getpid(), lent.fd, SIZE)
    assert found is not None
    assert not found.flags.writeable
    fd = os.open(f"/proc/self/fd/{lent.fd}", os.O_RDWR)
    try:
        with pytest.raises(PermissionError):
            mmap.mmap(fd, SIZE)
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 1)
    finally:
        os.close(fd)


def test_what_is_not_there_is_not_found(lent: LentMemory, tmp_path: Path) -> None:
    assert find_memory(os.getpid(), lent.fd, SIZE + 1) is None, "another size"
    assert find_memory(os.getpid(), 1 << 20, SIZE) is None, "no such number"
    assert find_memory(1 << 30, lent.fd, SIZE) is None, "no such process"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, flags in ((pipe, os.O_RDWR), (tmp_path, os.O_RDONLY)):
        fd = os.open(path, flags)
        try:
            assert find_memory(os.getpid(), fd, SIZE) is None, "something else"
        finally:
            os.close(fd)
    open_file = os.memfd_create("other", os.MFD_ALLOW_SEALING)
    os.ftruncate(open_file, SIZE)
    assert find_memory(os.getpid(), open_file, SIZE) is None, "it could shrink"
    os.close(open_file)


def test_it_lives_as_long_as_somebody_looks_and_is_found_no_more_once_closed() -> None:
    before = descriptors()
    lent = LentMemory(SIZE)
    fd = lent.fd
    found = find_memory(os.getpid(), fd, SIZE)
    lent.array[:] = 5
    lent.close()
    lent.close()
    assert find_memory(os.getpid(), fd, SIZE) is None
    del lent
    assert found is not None
    assert (found == 5).all()
    del found
    assert descriptors() == before
