"""A job as files, names and addresses.

::

    folder, files        the job folder, and what lies in it
    claiming             who begins a run makes the folder its own
    sockets              the private folder of sockets
    environment          PACELINE_*: which job, as what
    commands             what each role runs, and what goes on with a run
    wiring, addresses    who may say what to whom, and where
    own                  which address of this machine others reach
    logs                 which there are, and what is in them
    naming               which job a command is for
    operating, joining   asking a running job from outside, by its folder or without

`claimed` and `job_of` load when they are asked for: who only asks how a job stands needs no
store.
"""

from typing import TYPE_CHECKING

from paceline.launch.job.addresses import (
    LOOPBACK,
    ON_LOOPBACK,
    Transport,
    door_addresses,
    from_here,
    hold_addresses,
    reached,
    tcp_address,
)
from paceline.launch.job.commands import (
    Command,
    UserScript,
    file_of,
    load_plugins,
    require_named,
    require_script,
    resolved,
    resume_command,
    role_command,
    with_failpoints,
)
from paceline.launch.job.environment import (
    GROUP_INDEX,
    JOB_DIR,
    KEPT_MEMORY,
    ROLE,
    SECRET,
    SECRET_FILE,
    THREADS,
    Place,
    given_secret,
    read_place,
    read_quiet,
    trainer_threads,
)
from paceline.launch.job.files import (
    read_secret,
    require_files,
    require_utf8,
    write_secret,
    write_whole,
)
from paceline.launch.job.folder import RUNS, JobDir, RunFile
from paceline.launch.job.joining import DoorLogs, JobDoor
from paceline.launch.job.logs import LOG_PIECE_BYTES, log_kind, log_sizes, read_log
from paceline.launch.job.naming import (
    ask_secret,
    fresh_job_dir,
    named_job,
    notebook_name,
    pace_command,
    piped_secret,
    shown_name,
)
from paceline.launch.job.operating import (
    call_running,
    call_until_done,
    find_job,
    find_running,
    is_running,
    running_job,
)
from paceline.launch.job.own import (
    Candidate,
    Candidates,
    OwnWish,
    candidates,
    is_one_address,
    listening_at,
    own_anywhere,
    own_listening,
)
from paceline.launch.job.sockets import (
    hold_sockets,
    keep_function,
    read_function,
    remove_sockets,
)
from paceline.launch.job.wiring import OBSERVER, Wires, way_of, wires_of
from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.launch.job.claiming import claimed, job_of

# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(
        __name__,
        {
            "claimed": "paceline.launch.job.claiming",
            "job_of": "paceline.launch.job.claiming",
        },
    )
