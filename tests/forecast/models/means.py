"""What a model comes to on average, to hold draws and fits to."""

import math

from paceline.forecast.models import (
    Compute,
    Lognormal,
    Measured,
    Quantiles,
    Slow,
    Straggler,
)


def mean_s(model: Compute, trainers: int) -> float:
    """What a batch computes on average over so many trainers."""
    if isinstance(model, Measured):
        own = [mean_s(model.trainers[n % len(model.trainers)], 1) for n in range(trainers)]
        return sum(own) / trainers
    if isinstance(model, Lognormal):
        return model.median_s * math.exp(model.sigma**2 / 2)
    if isinstance(model, Straggler):
        return model.seconds * (1 + model.probability * (model.factor - 1))
    if isinstance(model, Slow):
        slow = min(model.trainers, trainers)
        return model.seconds * (1 + slow / trainers * (model.factor - 1))
    if isinstance(model, Quantiles):
        inner, ends = sum(model.seconds[1:-1]), model.seconds[0] + model.seconds[-1]
        return (inner + ends / 2) / (len(model.seconds) - 1)
    return model.seconds
