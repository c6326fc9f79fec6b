"""One machine leads, all others learn where, and how it ended."""

from collections.abc import Iterator

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from paceline.errors import JobFailed
from paceline.launch.torchrun import claim
from paceline.launch.torchrun.claim import ClaimStore, Leading
from paceline.timing import SystemClock
from paceline.transport.address import TcpAddress

OPEN = Leading("open", "10.0.0.1:7070", "ab" * 32)


@pytest.fixture
def where() -> Iterator[TcpAddress]:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    yield TcpAddress("127.0.0.1", store.port)
    del store


def machine(where: TcpAddress, run: str = "7") -> ClaimStore:
    """A machine's own connection."""
    return ClaimStore(where, run, SystemClock())


def test_the_first_leads_and_the_others_learn_where(where: TcpAddress) -> None:
    one, two, three = machine(where), machine(where), machine(where)

    assert [one.claim(), two.claim(), three.claim()] == [True, False, False]
    one.tell(OPEN)
    assert two.wait_told() == three.wait_told() == OPEN


def test_each_run_has_a_leader_of_its_own(where: TcpAddress) -> None:
    assert machine(where, "7").claim()
    assert machine(where, "8").claim()


def test_who_comes_once_the_job_is_over_is_told_how(where: TcpAddress) -> None:
    one, two = machine(where), machine(where)
    one.claim()
    one.tell(OPEN)
    over = Leading("over", text="failed: as it was", status=1)
    one.tell(over)

    assert not two.claim()
    assert two.wait_told() == two.wait_over() == over


def test_a_leader_that_says_nothing_is_not_waited_for_without_end(
    where: TcpAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "OPEN_S", 0.05)
    monkeypatch.setattr(claim, "OVER_S", 0.05)
    monkeypatch.setattr(claim, "LOOK_EVERY_S", 0.01)
    one, two = machine(where), machine(where)
    assert two.told() is None
    one.claim()

    with pytest.raises(JobFailed, match="another machine of this torchrun was to lead"):
        two.wait_told()
    assert two.wait_over() is None
