"""Summaries of jobs that have ended."""

from paceline.watch.summary import Restarts, StatusWord, Summary, TaskCounts

WORDS: dict[str, StatusWord] = {
    "trained": "finished",
    "gave up": "finished",
    "failed": "failed",
}


def summary(
    ending: str = "trained", reason: str = "why", job_dir: str = "job", rate: float = 51.2
) -> Summary:
    """Of a job that has ended so; one that has no word of its own was stopped."""
    return Summary(
        status=WORDS.get(ending, "stopped"),
        epochs=1,
        records=640,
        tasks=TaskCounts(1, 0),
        steps=10,
        seconds=12.5,
        records_per_second=rate,
        metrics={"loss": 0.5},
        restarts=Restarts(),
        job_dir=job_dir,
        counters={},
        ending=ending,
        reason=reason,
    )
