"""Frozen parameters that a script has changed all the same are told of, by name.

Waits for nothing but a copy to the host. The thread of the user's loop calls.
"""

from collections.abc import Callable, Iterable

from paceline.trainer.gradients import PartNumbers

_CHANGED = (
    "the parameter {name!r} was frozen when its model was shared, and its values are "
    "others now: nothing shares them, so other trainers, checkpoints and exports have "
    "those of share; make it a buffer (register_buffer), or share it as trainable "
    "(requires_grad=True)"
)


def warn_of_changed(parts: Iterable[PartNumbers], warn: Callable[[str], None]) -> None:
    """Look at the frozen parameters of all parts, and warn of one that has changed."""
    for numbers in parts:
        name = None if numbers.frozen is None else numbers.frozen.changed()
        if name is not None:
            warn(_CHANGED.format(name=name))
