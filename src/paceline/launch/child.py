"""What a trainer process runs: the user's script, as ``python script.py`` would.

Started as ``python -P -m paceline.launch.child script.py arguments``. It dies with the
launcher; everything else is the script's own.
"""

import os
import runpy
import signal
import sys
from pathlib import Path

from paceline.launch.environment import LAUNCHER
from paceline.launch.parent import die_with_parent


def main() -> None:
    """Run the script named by the first argument as ``__main__``."""
    die_with_parent(int(os.environ.get(LAUNCHER, "0")), signal.SIGKILL)
    del sys.argv[0]
    script = Path(sys.argv[0])
    sys.path.insert(0, str(script.resolve().parent))
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
