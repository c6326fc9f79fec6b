"""Whoever does not want shared memory gets none, and everything travels all the same."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.transport.mailbox import LEAST_BYTES
from paceline.transport.shared_memory import (
    SHARED_MEMORY,
    is_supported,
    may_share_memory,
)
from tests.transport.corridors import PATIENCE_S, Memory, Say, UnixCorridor

VALUES = bytes(range(256)) * (3 * LEAST_BYTES // 256)


@pytest.fixture
def corridor() -> Iterator[UnixCorridor]:
    opened = UnixCorridor()
    yield opened
    opened.close()


def pieces() -> int:
    return Path("/proc/self/maps").read_text().count("/memfd:paceline")


@pytest.mark.parametrize("chosen", ["on", "off"])
def test_large_requests_travel_as_chosen(
    chosen: str,
    corridor: UnixCorridor,
    service: Memory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SHARED_MEMORY, chosen)
    corridor.listen(service)
    before = pieces()
    answer = corridor.connect().call(Say("much"), [VALUES], timeout_s=PATIENCE_S)
    assert bytes(answer.buffers[0]) == VALUES
    assert (pieces() > before) == (chosen == "on")


def test_nothing_is_lent_to_who_does_not_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARED_MEMORY, "off")
    assert not is_supported()


def test_what_it_cannot_read_is_refused_by_name() -> None:
    assert may_share_memory({})
    with pytest.raises(
        UsageError, match=re.escape(f"{SHARED_MEMORY}: expected 'on' or 'off', got 'no'")
    ):
        may_share_memory({SHARED_MEMORY: "no"})
