"""Models of what takes time, as words, and what a real run says of them."""

from paceline.forecast.models.fitting import Fitted, fit
from paceline.forecast.models.models import (
    Compute,
    Deaths,
    Draw,
    Lognormal,
    Network,
    Pauses,
    draw_compute,
    draw_pauses,
)
from paceline.forecast.models.written import (
    parse_bytes,
    parse_compute,
    parse_deaths,
    parse_network,
    parse_pauses,
    parse_seconds,
)

__all__ = [
    "Compute",
    "Deaths",
    "Draw",
    "Fitted",
    "Lognormal",
    "Network",
    "Pauses",
    "draw_compute",
    "draw_pauses",
    "fit",
    "parse_bytes",
    "parse_compute",
    "parse_deaths",
    "parse_network",
    "parse_pauses",
    "parse_seconds",
]
