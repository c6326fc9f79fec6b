"""Both scripts of the page for those who come from DDP run as they stand, and learn."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-ddp.md"
SCRIPT = re.compile(r"^```python\n(import torch\n.*?)^```", re.MULTILINE | re.DOTALL)
WAIT_S = 300.0


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(0)
def test_both_scripts_learn_and_leave_the_same_file(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    environment = {**os.environ, **alone, "MASTER_PORT": str(port), "PACELINE_QUIET": "1"}
    scripts = SCRIPT.findall(PAGE.read_text(encoding="utf-8"))
    assert len(scripts) == 2
    for number, script in enumerate(scripts):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "train.py").write_text(script, encoding="utf-8")
        ran = subprocess.run(
            [sys.executable, "train.py"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert float(ran.stdout.split()[-1]) < 0.1, "it has learned nothing"
        assert (folder / "model.pt").is_file()
