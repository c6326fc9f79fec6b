"""Feeds strangers' bytes to everything that reads them, guided by what code they reach.

Each target runs in a process of its own for a bounded time, from what earlier runs have
learned (``build/fuzz/<target>``). The exit status is 0 when all targets held; the bytes
that broke one lie beside what it had learned, and its error is printed::

    make fuzz                                     a minute for each target
    .venv/bin/python tools/fuzz.py 600 messages   ten minutes for one

The targets are those of `tests.testing.parsers`, and ``made-up``: messages that the
types allow, with a few bytes changed. Needs the group ``fuzz``.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import atheris
import msgspec

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # for what the tests make up
with atheris.instrument_imports(include=["paceline"]):
    from paceline.messages.shared import Refusal
    from paceline.messages.watching import AskStatus
    from paceline.transport.frames import Kind, encode_frame
    from paceline.transport.handshake import (
        Challenge,
        Farewell,
        Hello,
        Proof,
        Welcome,
    )
    from tests.testing.parsers import LINKS, PARSERS, read_messages

FOUND = ROOT / "build" / "fuzz"
SECONDS = 60
MADE_UP = "made-up"
TARGETS = (*PARSERS, MADE_UP)
MEMORY_MB = 2048
LONGEST_S = 10  # for one input
LONGEST_BYTES = 4096

MESSAGES = (
    Hello(run="r", role="trainer-0", nonce=bytes(32)),
    Challenge(bytes(32)),
    Proof(bytes(32)),
    Welcome(run="r", role="server-0", proof=bytes(32)),
    Farewell("reason"),
    AskStatus(),
    Refusal(kind="fenced", text="text"),
)


def seeds() -> list[bytes]:
    """Bytes to begin with: a frame, and the message alone, of each kind."""
    frames = [encode_frame(Kind.HELLO, 1, message, [b"buffer"]) for message in MESSAGES]
    whole = [b"".join(bytes(piece) for piece in pieces) for pieces in frames]
    return [*whole, *(msgspec.msgpack.encode(message) for message in MESSAGES)]


def target(name: str) -> Callable[[bytes], object]:
    """What a target does with bytes."""
    if name != MADE_UP:
        return PARSERS[name]
    from hypothesis import given, settings  # noqa: PLC0415  (seconds, for one target)
    from hypothesis import strategies as st  # noqa: PLC0415

    from tests.testing.wire_values import damaged, message_bytes  # noqa: PLC0415

    @settings(deadline=None, database=None)
    @given(damaged(st.one_of([message_bytes(kind) for kind in LINKS.values()])))
    def read_made_up(data: bytes) -> None:
        read_messages(data)

    one: Callable[[bytes], object] = read_made_up.hypothesis.fuzz_one_input  # type: ignore[attr-defined]  # by hypothesis
    return one


def fuzz(name: str, seconds: int) -> None:
    """Run one target in this process, which ends with it."""
    learned = FOUND / name
    learned.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds()):
        (learned / f"seed-{number}").write_bytes(data)
    read = target(name)
    options = [
        f"-max_total_time={seconds}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-timeout={LONGEST_S}",
        f"-max_len={LONGEST_BYTES}",
        f"-artifact_prefix={learned}/broken-by-",
        "-print_final_stats=1",
        "-verbosity=0",
    ]

    def one_input(data: bytes) -> None:
        read(data)

    atheris.Setup([sys.argv[0], *options, str(learned)], one_input)
    atheris.Fuzz()


def fuzz_all(seconds: int, names: list[str]) -> int:
    """Run targets one after the other; how many broke."""
    broken = []
    for name in names:
        print(f"== {name}, {seconds} s", flush=True)
        command = [sys.executable, __file__, "--one", name, str(seconds)]
        if subprocess.run(command, check=False, cwd=ROOT).returncode != 0:
            broken.append(name)
    print(f"{len(names) - len(broken)} targets held, {len(broken)} broke", *broken)
    return len(broken)


def main(arguments: list[str]) -> int:
    """Run what was asked for and return the exit status."""
    if arguments[:1] == ["--one"]:
        fuzz(arguments[1], int(arguments[2]))
        return 0
    seconds, names = SECONDS, arguments
    if arguments and arguments[0].isdecimal():
        seconds, names = int(arguments[0]), arguments[1:]
    unknown = set(names) - set(TARGETS)
    if unknown:
        print(f"expected targets of {', '.join(TARGETS)}, got {', '.join(unknown)}")
        return 2
    return 1 if fuzz_all(seconds, names or list(TARGETS)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
