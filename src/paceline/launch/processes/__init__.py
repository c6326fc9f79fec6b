"""Processes of this machine: started, named, ended.

::

    process                        one supervised process
    forkserver, forked, forkwire   started in milliseconds as forks
    role                           what coordinator and servers run
    group, gpus                    a trainer of several processes
    parent, exits                  what the kernel is asked for, and tells
    interrupts, notice, signals    being asked to stop, or to leave
    log_streams                    output into a log whose disk may be full

The names load when they are asked for: whoever needs one is not given the others.
"""

from typing import TYPE_CHECKING

from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.launch.processes.exits import explain_exit, is_crash
    from paceline.launch.processes.forkserver import ForkServer
    from paceline.launch.processes.group import group_place
    from paceline.launch.processes.interrupts import Interrupts
    from paceline.launch.processes.notice import LeaveNotice
    from paceline.launch.processes.parent import signs_of_life
    from paceline.launch.processes.process import Child, end_all, wait_any
    from paceline.launch.processes.signals import Signals

__all__ = [
    "Child",
    "ForkServer",
    "Interrupts",
    "LeaveNotice",
    "Signals",
    "end_all",
    "explain_exit",
    "group_place",
    "is_crash",
    "signs_of_life",
    "wait_any",
]

_LAZY = {  # {name: the module that defines it}
    "Child": "paceline.launch.processes.process",
    "ForkServer": "paceline.launch.processes.forkserver",
    "Interrupts": "paceline.launch.processes.interrupts",
    "LeaveNotice": "paceline.launch.processes.notice",
    "Signals": "paceline.launch.processes.signals",
    "end_all": "paceline.launch.processes.process",
    "explain_exit": "paceline.launch.processes.exits",
    "group_place": "paceline.launch.processes.group",
    "is_crash": "paceline.launch.processes.exits",
    "signs_of_life": "paceline.launch.processes.parent",
    "wait_any": "paceline.launch.processes.process",
}
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)
