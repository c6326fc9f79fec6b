"""Learning rates of an update: what the trainer's groups say, times what guards allow.

A rate of 1 changes nothing, not one bit. Rows have no groups: their optimizers' own rates
are multiplied where they step.

Pure.
"""

from paceline.messages.shared import Hyper
from paceline.server.requests.contents import PushContents


def at_rate(contents: PushContents, rate: float) -> PushContents:
    """A push that takes its step with so much of its learning rates."""
    if rate == 1.0:
        return contents
    return contents._replace(hyper=hyper_at_rate(contents.hyper, rate), rate=rate)


def hyper_at_rate(hyper: tuple[Hyper, ...], rate: float) -> tuple[Hyper, ...]:
    """Hyper-parameters of all groups, with so much of their learning rates."""
    if rate == 1.0:
        return hyper
    return tuple(_at_rate(group, rate) for group in hyper)


def _at_rate(group: Hyper, rate: float) -> Hyper:
    lr = group.get("lr")
    return {**group, "lr": lr * rate} if isinstance(lr, int | float) else group
