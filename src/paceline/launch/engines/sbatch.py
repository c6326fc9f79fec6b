"""The batch script of a job of SLURM's, as users read it, change it and submit it.

Pure.
"""

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

# SLURM tells the steps of a job some seconds before it ends it, and a batch script itself
# last, or never: so what is to hear of it is a step.
_HEAD = """\
#!/bin/bash
# {told}
{options}

PATH={programs}:"$PATH"
id=${{SLURM_ARRAY_JOB_ID:+${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID}}
id=${{id:-$SLURM_JOB_ID}}
"""
_RUN = """\
job={runs}/slurm-$id

# A step, since SLURM tells steps when a job has to leave, and the batch script too late.
{step} \\
  paceline run --engine slurm --job-dir "$job" --resume-if-begun {checkpoints}\\
  {words}
"""
_HOST = """\

# A step, since SLURM tells steps when a job has to leave, and the batch script too late.
{step} \\
  paceline host --join {join}{words}
"""
_TAIL = """\
code=$?

if [ "$code" -eq 75 ]; then
  scontrol requeue "$id" # it was told to leave: {then}
fi
exit "$code"
"""
# Of a file's name, what would be more than a word there.
_NOT_NAMES = re.compile(r"[^\w.+-]+", re.ASCII)
_STEP = 'srun --nodes=1 --ntasks=1 --nodelist="$SLURMD_NODENAME" --overlap --cpu-bind=none'
_CHECKPOINTS = '--checkpoints "$PWD/$job/checkpoints" '


class BatchJob(NamedTuple):
    """What is asked of SLURM for a job.

    Attributes:
        name: of the job.
        nodes: machines of it.
        lines: more options of sbatch, one each; of two that say the same the last counts.
        programs: the folder in which `paceline` is.
    """

    name: str
    nodes: int
    lines: tuple[str, ...]
    programs: str


def run_script(batch: BatchJob, words: Sequence[str], *, has_checkpoints: bool) -> str:
    """What runs a job, and goes on with it however often SLURM interrupts it.

    Args:
        batch: what is asked of SLURM.
        words: options of ``paceline run``, the script, its arguments.
        has_checkpoints: the words say where they lie.
    """
    told = "A paceline job: submit this with sbatch, where all machines see the same files."
    run = _RUN.format(
        runs="runs",
        step=_STEP,
        checkpoints="" if has_checkpoints else _CHECKPOINTS,
        words=shlex.join(words),
    )
    return _head(batch, told) + run + _TAIL.format(then="it goes on in its next turn")


def host_script(batch: BatchJob, join: str, words: Sequence[str]) -> str:
    """What brings a machine to a job that runs, and again when SLURM has taken it away.

    Args:
        batch: what is asked of SLURM.
        join: the job's folder, or where its launcher listens.
        words: options of ``paceline host``.
    """
    told = "Machines for a paceline job that runs already: submit this with sbatch."
    more = f" {shlex.join(words)}" if words else ""
    host = _HOST.format(step=_STEP, join=shlex.quote(join), words=more)
    return _head(batch, told) + host + _TAIL.format(then="it joins again in its next turn")


def _head(batch: BatchJob, told: str) -> str:
    lines = [
        f"--job-name={_NOT_NAMES.sub('-', batch.name)}",
        f"--nodes={batch.nodes}",
        "--ntasks-per-node=1",
        "--requeue",
        "--open-mode=append",
        "--signal=USR1@120",
        *batch.lines,
    ]
    options = "\n".join(f"#SBATCH {line}" for line in lines)
    programs = shlex.quote(batch.programs)
    return _HEAD.format(told=told, options=options, programs=programs)
