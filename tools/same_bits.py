"""Does another version of the code train the same bits? Asked of the example scripts.

::

    .venv/bin/python -m tools.same_bits --before ../other     another checkout, and this one
    .venv/bin/python -m tools.same_bits --before ../other ctr     jobs whose names begin so

Each job trains with one trainer and one thread, whose order of steps is always the same,
and its last checkpoint is read: a line for each job with a hash over the names, types,
shapes and bytes of all tensors in it, but for a table of times. Exits with 1 where any
differ. Waits: for each job.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple, final

from safetensors import safe_open

TIMES = "/table/looks/"  # of the topics: when each look was taken
ROOT = Path(__file__).resolve().parents[1]
RUN = ("-m", "paceline.cli.main", "run")
ONE_OF_EACH = ("--trainers", "1", "--servers", "1")
NOTEBOOK = "examples/ordinary/notebook.ipynb"


class BitsJob(NamedTuple):
    """A script and how it is run; no options: by itself, with all roles in it."""

    name: str
    script: str
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


CTR = ("examples/ctr/train.py", ("--batch-size", "2048"))
TOPICS = ("--data", "generated", "--epochs", "4", "--seed", "1", "--model")
JOBS = (
    *(
        BitsJob(f"ordinary-{name}", f"examples/ordinary/{name}.py")
        for name in ("resnet", "transformer", "gan", "recommender", "accumulate")
    ),
    BitsJob("ordinary-notebook", NOTEBOOK),
    BitsJob("ctr-embedded", *CTR),
    BitsJob("ctr-sync", *CTR, ONE_OF_EACH),
    BitsJob("ctr-async", *CTR, (*ONE_OF_EACH, "--pace", "async")),
    BitsJob("ctr-pull-2", *CTR, (*ONE_OF_EACH, "--pace", "async:pull=2")),
    *(
        BitsJob(f"topics-{model}", "examples/topics/lda.py", (*TOPICS, model))
        for model in ("locking", "push-pull", "no-sync", "rotation")
    ),
)


@final
class BitsError(RuntimeError):
    """A job failed, or has saved nothing."""


def train(job: BitsJob, checkout: Path, folder: Path) -> Path:
    """Run a job with the code and the scripts of a checkout; returns its folder."""
    script = checkout / job.script
    if script.suffix == ".ipynb":
        script = _as_script(script, folder)
    here = folder / job.name
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout / "src"),
        "OMP_NUM_THREADS": "1",
        "PACELINE_JOB_DIR": str(here),
    }
    command = [str(script), *job.arguments]
    if job.options:
        environment.pop("PACELINE_JOB_DIR")
        command = [*RUN, *job.options, "--job-dir", str(here), *command]
    found = subprocess.run(
        [sys.executable, *command],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        raise BitsError(f"{job.name} of {checkout} failed:\n{found.stderr[-2000:]}")
    return here


def digest(job_dir: Path) -> str:
    """Of all tensors of the last checkpoint, by name."""
    files = sorted(job_dir.rglob("*.safetensors"))
    if not files:
        raise BitsError(f"{job_dir} has no checkpoint")
    last = max(file.parent for file in files)
    found = hashlib.sha256()
    for file in sorted(last.glob("*.safetensors")):
        with safe_open(file, "numpy") as tensors:
            for name in sorted(tensors.keys()):
                if TIMES in name:
                    continue
                values = tensors.get_tensor(name)
                found.update(f"{name} {values.dtype} {values.shape}".encode())
                found.update(values.tobytes())
    return found.hexdigest()[:16]


def _as_script(notebook: Path, folder: Path) -> Path:
    """The cells of code, one after the other."""
    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    script = folder / "notebook.py"
    script.write_text("\n\n".join(code))
    return script


def main() -> int:
    """Train each job twice, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="another checkout")
    parser.add_argument("jobs", nargs="*", help="names, or how they begin; all by default")
    flags = parser.parse_args()
    asked = [job for job in JOBS if job.name.startswith(tuple(flags.jobs) or "")]
    differ = 0
    with tempfile.TemporaryDirectory() as temporary:
        for job in asked:
            found = []
            for side, checkout in (("before", flags.before.resolve()), ("now", ROOT)):
                folder = Path(temporary) / side
                folder.mkdir(exist_ok=True)
                found.append(digest(train(job, checkout, folder)))
            same = found[0] == found[1]
            differ += not same
            print(job.name, *found, "the same" if same else "DIFFERENT", flush=True)
    print(f"{len(asked) - differ} of {len(asked)} the same")
    return int(differ > 0 or not asked)


if __name__ == "__main__":
    sys.exit(main())
