"""What options of several commands say, read and checked.

::

    behind     options that stand behind the script
    jobs       which job a command is for
    machines   which other machines take part, and where they find this one
    places     where checkpoints lie
    seconds    durations as they are typed

Each loads when it is asked for: `paceline status` needs to know of no engine.
"""

from typing import TYPE_CHECKING

from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.cli.options import machines as machines
    from paceline.cli.options.behind import tell_behind
    from paceline.cli.options.jobs import JoinOption, PlainOption, job_said
    from paceline.cli.options.machines import MachinesSaid, leading
    from paceline.cli.options.places import place_of_cuts
    from paceline.cli.options.seconds import parse_every, parse_seconds

_LAZY = {  # {name: the module that defines it}
    "JoinOption": "paceline.cli.options.jobs",
    "MachinesSaid": "paceline.cli.options.machines",
    "PlainOption": "paceline.cli.options.jobs",
    "job_said": "paceline.cli.options.jobs",
    "leading": "paceline.cli.options.machines",
    "parse_every": "paceline.cli.options.seconds",
    "parse_seconds": "paceline.cli.options.seconds",
    "place_of_cuts": "paceline.cli.options.places",
    "tell_behind": "paceline.cli.options.behind",
}
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)
