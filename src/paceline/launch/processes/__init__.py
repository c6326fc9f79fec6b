"""Processes of this machine: started, named, ended.

::

    process              one supervised process
    forkserver, forked   started in milliseconds as forks
    role                 what coordinator and servers run
    group                a trainer of several processes
    parent, exits        what the kernel is asked for, and tells
    ending               how a script ends, which Python tells nobody
    signals              being asked to stop, or to leave
    stacks               where threads stand, for who asks

What needs torch loads when it is asked for.
"""

from typing import TYPE_CHECKING

from paceline.launch.processes.ending import note_exits
from paceline.launch.processes.exits import (
    describe_exit,
    exit_code_of,
    explain_exit,
    is_crash,
)
from paceline.launch.processes.parent import (
    die_with_parent,
    name_process,
    signs_of_life,
)
from paceline.launch.processes.process import Child, Watched, end_all, wait_any
from paceline.launch.processes.role import open_coordinator, open_server
from paceline.launch.processes.signals import (
    Interrupts,
    LeaveNotice,
    Signals,
    send_to_main,
)
from paceline.launch.processes.stacks import (
    ProcessStacks,
    StackFrame,
    roles_with_stacks,
    wait_stacks,
)
from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.launch.processes.forkserver import ForkServer
    from paceline.launch.processes.group import group_place

_LAZY = {  # {name: the module that defines it}
    "ForkServer": "paceline.launch.processes.forkserver",
    "group_place": "paceline.launch.processes.group",
}
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)
