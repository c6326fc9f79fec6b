"""Hogwild under kills: what one push at a time changes is exact.

Rows that no two records share are changed by one push after the other, whoever dies and
whoever trains their batches again; and so are dense elements, which all pushes change.
"""

from pathlib import Path

import pytest

from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, RandomKills, wait_chaos

SCRIPT = Path(__file__).with_name("lending_job.py")
RECORDS, EPOCHS, BATCH = 8192, 20, 64


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    "kinds", [("coordinator", "trainer"), ("server", "trainer")], ids=" and ".join
)
def test_counts_of_a_records_own_row_are_exact_under_kills(
    kinds: tuple[str, ...], tmp_path: Path, forks: ForkServer
) -> None:
    sizes = {"records": RECORDS, "epochs": EPOCHS, "batch-size": BATCH, "task-size": 512}
    arguments = ["--own-rows", "--sleep-ms", "30"]
    for option, value in sizes.items():
        arguments += [f"--{option}", str(value)]
    plan = ChaosPlan(
        SCRIPT,
        "async:isolation=hogwild",
        tuple(arguments),
        kills=RandomKills(5, 12, within_s=20.0, kinds=kinds),
        cut_every_s=2.0,
        limit_s=900.0,
    )
    report = wait_chaos(plan, tmp_path, forks)
    verdict = report.verdict
    print(f"{report.faults} {verdict} {report.returns} {report.seconds:.0f} s")  # noqa: T201  (the figures of a soak)
    assert sum(n for name, n in report.faults.items() if name.startswith("kill ")) == 12
    assert {f"kill {kind}" for kind in kinds} <= set(report.faults)
    assert verdict["rows_wrong"] == verdict["dense_wrong"] == 0
    assert report.summary["status"] == "finished"
    assert report.summary["records"] == verdict["expected"] == RECORDS * EPOCHS
