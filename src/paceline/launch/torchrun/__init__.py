"""Trainers that torchrun has started: their machine becomes a host of a job by itself.

::

    found     what torchrun says of itself, in an environment and its command line   (pure)
    above     which process is torchrun, also above a wrapper
    wishes    what the user says of the job, in PACELINE_* variables                 (pure)
    claim     who leads: the machines agree in torchrun's own store
    daemon    one for each machine, which torchrun's restarts spare: its host, or launcher
    coming    a process comes to the daemon of its machine, and starts it if there is none
"""

from typing import TYPE_CHECKING

from paceline.launch.torchrun.found import FORWARDED, is_in_torchrun
from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.launch.torchrun.coming import come

_LAZY = {"come": "paceline.launch.torchrun.coming"}  # most processes do not
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)
