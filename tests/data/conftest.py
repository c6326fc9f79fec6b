"""What tests of sources share: a file system in memory that is empty at the start."""

from collections.abc import Iterator

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem


@pytest.fixture
def memory() -> Iterator[MemoryFileSystem]:
    """fsspec's ``memory://``, which a process has once."""
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]
    yield fs
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]
