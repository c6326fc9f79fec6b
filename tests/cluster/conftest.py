"""Several trainers in one process, each in a thread."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.config import JobConfig, Pace, Sync
from paceline.launch.embedded import EmbeddedJob

Script = Callable[[paceline.Session], Any]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., list[Any]]]:
    """Run a script in a thread for each trainer; what each came to, and the summary."""
    jobs: list[EmbeddedJob] = []

    def run_script(
        script: Script, trainers: int = 3, pace: Pace | None = None, **options: Any
    ) -> Any:
        config = JobConfig(
            run="evaluation",
            trainers=trainers,
            servers=2,
            pace=pace or Sync(),
            timeout_s=60.0,
            **options,
        )
        job = EmbeddedJob(config, tmp_path / f"job-{len(jobs)}")
        jobs.append(job)
        found: dict[int, Any] = {}
        errors: list[BaseException] = []

        def act(index: int) -> None:
            try:
                found[index] = script(job.session(f"trainer-{index}"))
            except BaseException as error:  # noqa: BLE001  (raised again below)
                errors.append(error)

        threads = [threading.Thread(target=act, args=(i,)) for i in range(trainers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert not any(thread.is_alive() for thread in threads), "a trainer hangs"
        if errors:
            raise errors[0]
        return [found[index] for index in range(trainers)]

    run_script.jobs = jobs  # type: ignore[attr-defined]
    yield run_script
    for job in jobs:
        job.close()
