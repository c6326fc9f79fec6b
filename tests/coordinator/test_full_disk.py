"""While the journal cannot be written: what time it is, what is told, and to whom."""

from paceline.coordinator.full_disk import RETRY_S, TELL_S, DiskWait
from paceline.errors import StoreError, StoreFull

FULL = StoreFull("cannot append record 7", "/jobs/a b", "the disk is full")


def test_time_stood_still_for_as_long_as_nothing_could_be_written() -> None:
    holding = DiskWait()
    assert holding.stood_s == 0.0
    assert holding.failed(FULL, 11.0)
    assert holding.wrote(511.0) == 500.0
    assert holding.stood_s == 500.0
    holding.failed(FULL, 520.0)
    holding.wrote(530.0)
    assert holding.stood_s == 510.0, "two times add up"


def test_it_is_tried_again_every_second_and_said_as_one_wait() -> None:
    holding = DiskWait()
    assert holding.failed(FULL, 5.0)
    assert not holding.is_due(5.0 + RETRY_S / 2)
    assert holding.is_due(5.0 + RETRY_S)
    assert not holding.failed(FULL, 6.0), "the same wait"
    trouble = holding.trouble(17.0)
    assert trouble is not None
    assert (trouble.kind, trouble.place, trouble.waited_s) == ("journal", "/jobs/a b", 12.0)
    assert trouble.text == (
        "waiting for space on the disk of /jobs/a b: the disk is full, since 12 s"
    )
    holding.wrote(18.0)
    assert holding.trouble(18.0) is None


def test_other_trouble_of_the_disk_is_told_as_it_is() -> None:
    holding = DiskWait()
    holding.failed(StoreError("database is locked"), 5.0)
    trouble = holding.trouble(6.0)
    assert trouble is not None
    assert trouble.text == "waiting: database is locked, since 1 s"


def test_the_launcher_is_told_at_once_and_the_others_every_second() -> None:
    holding = DiskWait()
    holding.failed(FULL, 5.0)
    assert "launcher" in holding.whom_to_tell(5.1)
    assert "trainer" not in holding.whom_to_tell(5.1), "it may be over in a moment"
    assert {"trainer", "server", "operator"} <= set(holding.whom_to_tell(5.0 + TELL_S))
    assert "trainer" not in holding.whom_to_tell(5.5 + TELL_S)
