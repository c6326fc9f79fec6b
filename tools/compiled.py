"""Compiles the decisions that every step runs, with mypyc: forecasts in half the time.

::

    make compiled                                     some minutes; needs a C compiler
    PYTHONPATH=build/compiled paceline simulate ...   a forecast with what was compiled

`build/compiled` is a copy of the package with an extension beside each module of
`COMPILED`. Nothing else changes: the source is the truth, pure Python is what is installed
and what jobs run. `tests/tools/test_compiled.py` holds both to the same forecasts.

A module cannot be compiled that

* dispatches by type with functions of one name (``requests``, ``durable``);
* has a struct with more than fields beside it (``queue``: what it has cached);
* is a base of users' own classes (``pace.strategy``).

Structs of those that are compiled become plain classes: see `tools.native`.

Nor can a job be trained with the copy: an act that is compiled cannot be closed from
outside (mypyc 2.4.1: ``SystemError``, then a segmentation fault), as a trainer that ends
in the middle of one does. So the copy refuses to. Forecasts drop an act and close none.

Waits: for mypyc and the C compiler.
"""

import os
import shutil
import sys
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup  # type: ignore[import-untyped]  # it has no stubs here

from tools.native import SUPPORT, Rewriter, with_replace

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "build" / "compiled"
MADE = ROOT / "build" / "compiling"  # until it is whole
COMPILED = {  # {room: modules}
    ".": "ids",
    "messages": (
        "waits shared beats data locking meeting peers results rotation server trainer "
        "values watching"
    ),
    "coordinator": (
        "outcomes averaging book clocks cut_decisions decisions effects governing grants "
        "hearing held_up losses members parking records repacing reports rounds speeds "
        "state status stops tasks ticks tracking unreadable waits"
    ),
    "pace": "fragments guards policy",
    "server": "part push_decisions state voids windows",
    "simulate/forecast": "agenda coordinator gauge line server trainer",
    "trainer": (
        "asking leases marching overlapping parts protocol pushing stepping ticking "
        "tracking turns windows"
    ),
}
ENCODED = frozenset({"Lease"})  # in a forecast, too: with the queue, in a cut
ELSEWHERE = {  # {module: (what it says, what its copy says)}
    "messages/__init__.py": (
        # No message is decoded in a forecast.
        ("    msgspec.msgpack.Decoder(_link)\n", "    del _link\n"),
    ),
    "coordinator/queue.py": (
        (
            "import msgspec\n",
            "import msgspec\nfrom paceline.native import decoded, encoded\n",
        ),
        ("Decoder(Queue)", "Decoder(Queue, dec_hook=decoded)"),
        ("encode(queue)", "encode(queue, enc_hook=encoded)"),
    ),
}

REFUSED = (  # of all modules that close acts, those that the others import
    "paceline/trainer/client.py",
    "paceline/simulate/trainer.py",
)
REFUSAL = '''"""Nothing that closes an act runs what was compiled."""

raise ImportError(
    "build/compiled is for forecasts: take it from PYTHONPATH for all else "
    "(tools/compiled.py says why)"
)
'''


def modules() -> list[str]:
    """What is compiled, as paths below the target."""
    return [
        f"paceline/{room}/{name}.py".replace("/./", "/")
        for room, names in COMPILED.items()
        for name in names.split()
    ]


def copy(target: Path) -> None:
    """Make a copy of the package whose structs are classes that mypyc knows."""
    shutil.rmtree(target, ignore_errors=True)
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "paceline", target / "paceline", ignore=unwanted)
    package = target / "paceline"
    (package / "native.py").write_text(SUPPORT, encoding="utf-8")
    rewriter = Rewriter(ENCODED)
    compiled = [target / module for module in modules()]
    others = sorted(set(package.rglob("*.py")) - {*compiled, package / "native.py"})
    for path in compiled:
        path.write_text(
            rewriter.rewrite(path.read_text(encoding="utf-8")), encoding="utf-8"
        )
    for path in others:
        path.write_text(with_replace(path.read_text(encoding="utf-8")), encoding="utf-8")
    for module, changes in ELSEWHERE.items():
        path = package / module
        text = path.read_text(encoding="utf-8")
        for said, instead in changes:
            if said not in text:
                raise SystemExit(f"{path}: expected {said!r}")
            text = text.replace(said, instead)
        path.write_text(text, encoding="utf-8")


def refuse(target: Path) -> None:
    """Keep the copy from whatever closes acts; mypyc wants to have read it."""
    for module in REFUSED:
        (target / module).write_text(REFUSAL, encoding="utf-8")


def main() -> int:
    """Copy, compile; 0 if all were compiled."""
    copy(MADE)
    os.chdir(MADE)
    options = [
        "--config-file=",
        "--ignore-missing-imports",
        "--follow-imports=silent",  # those with structs still do not agree with these
        *modules(),
    ]
    extensions = mypycify(options, opt_level="2", debug_level="0")
    setup(
        name="paceline-compiled",
        packages=[],
        ext_modules=extensions,
        script_args=["-q", "build_ext", "--inplace", "--build-temp", "temp"],
    )
    refuse(MADE)
    for left in ("temp", "build", ".mypy_cache"):
        shutil.rmtree(left, ignore_errors=True)
    shutil.rmtree(TARGET, ignore_errors=True)
    MADE.rename(TARGET)
    print(f"PYTHONPATH={TARGET.relative_to(ROOT)} runs {len(modules())} compiled modules")
    return 0


if __name__ == "__main__":
    sys.exit(main())
