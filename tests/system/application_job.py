"""An application of `examples/` as a job that a test disturbs.

::

    python application_job.py FOLDER/SCRIPT [the script's own options] --out VERDICT

What the script logs last is in the job's summary; the verdict says that it came to its end.
"""

import importlib
import json
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"

if __name__ == "__main__":
    folder, script = sys.argv.pop(1).split("/")
    at = sys.argv.index("--out")
    verdict = Path(sys.argv[at + 1])
    del sys.argv[at : at + 2]
    sys.path.insert(0, str(EXAMPLES / folder))
    importlib.import_module(script).main()
    verdict.write_text(json.dumps({"ended": True}))
