"""What holds for all tests."""

import pytest
from hypothesis import HealthCheck, settings

# Machines differ by a factor of twenty: how long an example takes is no failure.
settings.register_profile(
    "paceline", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("paceline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The rules of the house first, then from fast to slow; examples last."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[bool, bool, bool]:
    path = item.path.as_posix()
    is_slow = item.get_closest_marker("slow") is not None
    return "/tests/examples/" in path, is_slow, "/tests/architecture/" not in path
