"""The counting job, whose trainers say who they are at its beginning and at its end.

They sleep between batches until there is a file that the environment names.
"""

import os
import runpy
import sys
import time
from pathlib import Path

COUNTING = Path(__file__).parents[2] / "examples" / "counting" / "train.py"
HURRY = "SAYING_HURRY"


def main() -> None:
    """Count."""
    role, hurry, sleep = os.environ["PACELINE_ROLE"], Path(os.environ[HURRY]), time.sleep
    time.sleep = lambda seconds: None if hurry.exists() else sleep(seconds)
    sys.stdout.write(f"here is {role}\n")
    sys.stdout.flush()
    try:
        runpy.run_path(str(COUNTING), run_name="__main__")
    finally:
        sys.stdout.write(f"there was {role}\n")


if __name__ == "__main__":
    main()
