"""The number that a pace is named for may be said without its name."""

from paceline.config import SSP, AsyncDiLoCo, DiLoCo, LocalSGD


def test_the_number_that_a_pace_is_named_for_needs_no_name() -> None:
    assert SSP(3) == SSP(staleness=3)
    assert LocalSGD(20) == LocalSGD(every=20)
    assert DiLoCo(50) == DiLoCo(every=50)
    assert AsyncDiLoCo(50) == AsyncDiLoCo(every=50)
