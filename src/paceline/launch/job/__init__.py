"""A job as files, names and addresses.

::

    folder, files        the job folder, and what lies in it
    claiming             who begins a run makes the folder its own
    resuming             the command that goes on with it
    sockets, secret_file the private folder of sockets; the run's secret
    environment          PACELINE_*: which job, as what
    commands, plugins    what each role runs
    wiring, addresses, doors   who may say what to whom, and where
    operating            asking a running job from outside

The names load when they are asked for: whoever needs one is not given the others.
"""

from typing import TYPE_CHECKING

from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.launch.job.addresses import LOOPBACK, Transport, hold_addresses
    from paceline.launch.job.claiming import claimed
    from paceline.launch.job.commands import (
        Command,
        UserScript,
        file_of,
        require_script,
        role_command,
        with_failpoints,
    )
    from paceline.launch.job.doors import door_addresses
    from paceline.launch.job.environment import (
        GROUP_INDEX,
        JOB_DIR,
        KEPT_MEMORY,
        ROLE,
        THREADS,
        Place,
        read_place,
        read_quiet,
        trainer_threads,
    )
    from paceline.launch.job.files import require_files, require_utf8
    from paceline.launch.job.folder import RUNS, JobDir, RunFile, fresh_job_dir
    from paceline.launch.job.operating import (
        call_running,
        call_scale,
        call_until_done,
        find_job,
        find_running,
    )
    from paceline.launch.job.plugins import load_plugins, require_named, resolved
    from paceline.launch.job.resuming import resume_command
    from paceline.launch.job.secret_file import remove_secret, write_secret
    from paceline.launch.job.sockets import hold_sockets, remove_sockets
    from paceline.launch.job.wiring import OBSERVER, Wires

__all__ = [
    "GROUP_INDEX",
    "JOB_DIR",
    "KEPT_MEMORY",
    "LOOPBACK",
    "OBSERVER",
    "ROLE",
    "RUNS",
    "THREADS",
    "Command",
    "JobDir",
    "Place",
    "RunFile",
    "Transport",
    "UserScript",
    "Wires",
    "call_running",
    "call_scale",
    "call_until_done",
    "claimed",
    "door_addresses",
    "file_of",
    "find_job",
    "find_running",
    "fresh_job_dir",
    "hold_addresses",
    "hold_sockets",
    "load_plugins",
    "read_place",
    "read_quiet",
    "remove_secret",
    "remove_sockets",
    "require_files",
    "require_named",
    "require_script",
    "require_utf8",
    "resolved",
    "resume_command",
    "role_command",
    "trainer_threads",
    "with_failpoints",
    "write_secret",
]

_LAZY = {  # {name: the module that defines it}
    "Command": "paceline.launch.job.commands",
    "GROUP_INDEX": "paceline.launch.job.environment",
    "JOB_DIR": "paceline.launch.job.environment",
    "JobDir": "paceline.launch.job.folder",
    "KEPT_MEMORY": "paceline.launch.job.environment",
    "LOOPBACK": "paceline.launch.job.addresses",
    "OBSERVER": "paceline.launch.job.wiring",
    "Place": "paceline.launch.job.environment",
    "ROLE": "paceline.launch.job.environment",
    "RUNS": "paceline.launch.job.folder",
    "RunFile": "paceline.launch.job.folder",
    "THREADS": "paceline.launch.job.environment",
    "Transport": "paceline.launch.job.addresses",
    "UserScript": "paceline.launch.job.commands",
    "Wires": "paceline.launch.job.wiring",
    "call_running": "paceline.launch.job.operating",
    "call_scale": "paceline.launch.job.operating",
    "call_until_done": "paceline.launch.job.operating",
    "claimed": "paceline.launch.job.claiming",
    "door_addresses": "paceline.launch.job.doors",
    "file_of": "paceline.launch.job.commands",
    "find_job": "paceline.launch.job.operating",
    "find_running": "paceline.launch.job.operating",
    "fresh_job_dir": "paceline.launch.job.folder",
    "hold_addresses": "paceline.launch.job.addresses",
    "hold_sockets": "paceline.launch.job.sockets",
    "load_plugins": "paceline.launch.job.plugins",
    "read_place": "paceline.launch.job.environment",
    "read_quiet": "paceline.launch.job.environment",
    "remove_secret": "paceline.launch.job.secret_file",
    "remove_sockets": "paceline.launch.job.sockets",
    "require_files": "paceline.launch.job.files",
    "require_named": "paceline.launch.job.plugins",
    "require_script": "paceline.launch.job.commands",
    "require_utf8": "paceline.launch.job.files",
    "resolved": "paceline.launch.job.plugins",
    "resume_command": "paceline.launch.job.resuming",
    "role_command": "paceline.launch.job.commands",
    "trainer_threads": "paceline.launch.job.environment",
    "with_failpoints": "paceline.launch.job.commands",
    "write_secret": "paceline.launch.job.secret_file",
}
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)
