"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# Machines differ by a factor of twenty: how long an example takes is no failure.
settings.register_profile(
    "paceline", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("paceline")
