"""What options of several commands say, read and checked.

::

    machines   which other machines take part, and where they find this one
    places     where checkpoints lie
    seconds    durations as they are typed
"""

from paceline.cli.options import machines
from paceline.cli.options.machines import MachinesSaid, leading
from paceline.cli.options.places import place_of_cuts
from paceline.cli.options.seconds import parse_every, parse_seconds

__all__ = [
    "MachinesSaid",
    "leading",
    "machines",
    "parse_every",
    "parse_seconds",
    "place_of_cuts",
]
