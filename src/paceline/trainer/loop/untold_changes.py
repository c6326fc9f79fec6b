"""What a script has changed in a loop so that nobody else hears of it is told of, by name.

Waits for nothing but a copy to the host. The thread of the user's loop calls.
"""

from paceline.trainer.engine import TrainerEngine

_CHANGED = (
    "the parameter {name!r} was frozen when its model was shared, and its values are "
    "others now: nothing shares them, so other trainers, checkpoints and exports have "
    "those of share; make it a buffer (register_buffer), or share it as trainable "
    "(requires_grad=True)"
)
_LATE = (
    "the buffer {name!r} was registered within the loop, in a model that had none when the "
    "loop began: no checkpoint of this loop has it; register it in the model's __init__"
)


def warn_of_untold(carrier: TrainerEngine) -> None:
    """A loop ends: warn of frozen parameters that have changed, and of late buffers."""
    for numbers in carrier.numbers.values():
        name = None if numbers.frozen is None else numbers.frozen.changed()
        if name is not None:
            carrier.warn_once(_CHANGED.format(name=name))
    late = carrier.tracker.late_buffer()
    if late is not None:
        carrier.warn_once(_LATE.format(name=late))
