"""Who brings a job's other machines: each becomes a host of the job by ``paceline host``.

::

    engine     what any of them is asked for, and what it is given
    children   machines by children of the launcher: a pipe with the secret, a log, an end
    ssh        by ssh, one child for each
    slurm      by SLURM's srun, one child for all
    sbatch     the scripts that are submitted to SLURM
    ray        by a Ray cluster, one actor for each

An engine gives machines. Who lives, who has which data and what counts is decided without
it, and nothing waits for its opinion.
"""

from typing import TYPE_CHECKING

from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.launch.engines.engine import Brought, BroughtJob, Engine, NoEngine
    from paceline.launch.engines.ray import RayWish, connect_ray, ray_door
    from paceline.launch.engines.sbatch import BatchJob, host_script, run_script
    from paceline.launch.engines.slurm import slurm_engine
    from paceline.launch.engines.ssh import SshEngine, parse_hosts

_LAZY = {  # {name: the module that defines it}: a run needs one of them, or none
    "BatchJob": "paceline.launch.engines.sbatch",
    "Brought": "paceline.launch.engines.engine",
    "BroughtJob": "paceline.launch.engines.engine",
    "Engine": "paceline.launch.engines.engine",
    "NoEngine": "paceline.launch.engines.engine",
    "RayWish": "paceline.launch.engines.ray",
    "SshEngine": "paceline.launch.engines.ssh",
    "host_script": "paceline.launch.engines.sbatch",
    "run_script": "paceline.launch.engines.sbatch",
    "connect_ray": "paceline.launch.engines.ray",
    "ray_door": "paceline.launch.engines.ray",
    "parse_hosts": "paceline.launch.engines.ssh",
    "slurm_engine": "paceline.launch.engines.slurm",
}
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)
