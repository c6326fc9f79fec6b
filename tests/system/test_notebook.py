"""A notebook starts jobs of its own functions, and goes on when one is interrupted."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from paceline.timing import Deadline, SystemClock

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

pytestmark = [
    *(pytest.mark.slow, pytest.mark.system, pytest.mark.around, pytest.mark.timeout(0)),
    pytest.mark.filterwarnings("default"),  # of others' programs
]

WAIT_S = 300
CELLS = (
    "import os, torch, paceline\nprint(os.getpid())\n"
    "RATE, TABLE = 0.01, torch.zeros(10**6)",
    """
def train(epochs):
    session = paceline.connect()
    model = torch.nn.Linear(1, 1)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=RATE))
    for (batch,) in session.batches((torch.ones(640, 1),), batch_size=32, epochs=epochs):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        print("a batch", flush=True)
""",
    "paceline.run(train, args=(2,), trainers=2, pace='async', job_dir='first')",
    "paceline.run(lambda: TABLE.sum())",
    "paceline.run(train, args=(10**6,), job_dir='second', checkpoint_every='off')",
    "print('goes on')",
)


def outputs(cell: Any, kind: str) -> list[Any]:
    return [one for one in cell.outputs if one.output_type == kind]


def interrupt(log: Path, notebook: Any) -> None:
    """As Jupyter does it: SIGINT to the kernel, once the second job trains."""
    deadline = Deadline(SystemClock(), WAIT_S)
    while not (log.exists() and "a batch" in log.read_text()):
        if deadline.is_over():
            return
        time.sleep(0.05)
    os.kill(int(notebook.cells[0].outputs[0].text), signal.SIGINT)


def test_a_notebook_runs_a_function_and_survives_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    log = tmp_path / "second" / "logs" / "trainer-0.log"
    thread = threading.Thread(target=interrupt, args=(log, notebook))
    thread.start()
    nbclient.NotebookClient(
        notebook,
        timeout=WAIT_S,
        allow_errors=True,
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    thread.join()

    _, _, first, large, second, last = notebook.cells
    [shown] = outputs(first, "display_data")
    told = "paceline: job folder first, 2 trainers, 1 server, async"
    assert shown.data["text/plain"].startswith(told)
    [table] = outputs(first, "execute_result")
    assert "<td style='text-align:left'>1,280</td>" in table.data["text/html"]

    [refused] = outputs(large, "error")
    assert refused.ename == "UsageError"
    assert "most of it is 'TABLE'" in refused.evalue

    [ended] = outputs(second, "error")
    assert ended.ename == "Interrupted"
    assert list((tmp_path / "second" / "checkpoints").glob("cut-*")), "it was saved"
    go_on = "go on with: paceline.run(train, args=(...), job_dir="
    assert any(go_on in one.text for one in outputs(second, "stream"))
    assert [one.text for one in last.outputs] == ["goes on\n"]
