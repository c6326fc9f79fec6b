"""Other machines in a job: an agent on each, and the launcher's door for them.

::

    placement    on which host a role runs, and which wait for room     (pure)
    roster       which hosts there are, what is to be there, what is    (pure)
    log_pieces   which pieces of logs a host tells, and which are new   (pure)
    logs         how they come out of one folder, and into another
    door         where hosts come to the launcher
    hosted       a process on another host, watched like one's own
    opening      a run lets other machines in
    sameness     whether a machine has what the job was started with
    coming       how a host finds its launcher, and joins
    probing      one machine tries another
    examined     a machine finds out what it is ordered to, in place of a job
    agent        what ``paceline host`` does
"""

from typing import TYPE_CHECKING

from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.launch.hosts.agent import wait_host
    from paceline.launch.hosts.coming import (
        AnotherSecret,
        HostPlan,
        NotLetIn,
        RunGone,
        wait_door,
        wait_own_host,
    )
    from paceline.launch.hosts.door import HostsDoor
    from paceline.launch.hosts.opening import (
        Listening,
        open_door,
        require_door,
        require_shared,
    )
    from paceline.launch.hosts.placement import Capacity
    from paceline.launch.hosts.sameness import described

_LAZY = {  # {name: the module that defines it}: most runs have one machine
    "AnotherSecret": "paceline.launch.hosts.coming",
    "HostPlan": "paceline.launch.hosts.coming",
    "NotLetIn": "paceline.launch.hosts.coming",
    "RunGone": "paceline.launch.hosts.coming",
    "wait_door": "paceline.launch.hosts.coming",
    "wait_host": "paceline.launch.hosts.agent",
    "wait_own_host": "paceline.launch.hosts.coming",
    "HostsDoor": "paceline.launch.hosts.door",
    "Listening": "paceline.launch.hosts.opening",
    "open_door": "paceline.launch.hosts.opening",
    "require_door": "paceline.launch.hosts.opening",
    "require_shared": "paceline.launch.hosts.opening",
    "Capacity": "paceline.launch.hosts.placement",
    "described": "paceline.launch.hosts.sameness",
}
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)
