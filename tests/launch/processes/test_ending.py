"""How a script ends that calls `sys.exit`: what is known at exit, and what Python does."""

import subprocess
import sys

import pytest

BEGIN = """
import atexit, sys
from paceline.launch.processes import note_exits
note_exits()
atexit.register(lambda: print(repr(getattr(getattr(sys, "last_value", None), "args", 0))))
"""
CAUGHT = "try:\n    sys.exit(4)\nexcept SystemExit as error:\n    assert error.code == 4\n"
ON_ITS_WAY = "try:\n    sys.exit(3)\nfinally:\n    print('on its way')"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "known", "code"),
    [
        (ON_ITS_WAY, "(3,)", 3),
        ("sys.exit('no such thing')", "('no such thing',)", 1),
        (CAUGHT, "0", 0),
        (f"{CAUGHT}sys.exit(5)", "(5,)", 5),
        ("sys.exit()", "0", 0),
        ("sys.exit(0)", "0", 0),
        ("import threading\nthreading.Thread(target=sys.exit, args=(3,)).start()", "0", 0),
    ],
)
def test_an_exit_is_known_if_the_script_ends_by_it(
    script: str, known: str, code: int
) -> None:
    command = [sys.executable, "-c", BEGIN + script]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.stdout.split("\n")[-2], ended.returncode) == (known, code), ended.stderr
