"""What SLURM writes: lists of machines, and the log of a step."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import UsageError
from paceline.launch.engines.slurm_text import (
    LINE_BYTES,
    MOST_HOSTS,
    StepLog,
    expand_hosts,
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3],gpu-a[07-09]", ["n1", "n2", "n3", "gpu-a07", "gpu-a08", "gpu-a09"]),
        ("n[1,3-4,9]", ["n1", "n3", "n4", "n9"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[099-101]", ["n099", "n100", "n101"]),
        ("r[1-2]n[1-2]-ib", ["r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"]),
        ("a,b.example,c", ["a", "b.example", "c"]),
    ],
)
def test_a_list_of_machines_is_read_as_slurm_writes_it(text: str, names: list[str]) -> None:
    assert expand_hosts(text) == names


@pytest.mark.parametrize(
    "text",
    ["", ",", "a,,b", "a,", "n[", "n]", "n[1", "n[]", "n[1-]", "n[2-1]", "n[a-b]", "[[1]]"],
)
def test_what_is_no_list_of_machines_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected a list of machines such as n\[1-3\]"):
        expand_hosts(text)


@pytest.mark.parametrize("text", ["n[0-99999999]", "n[1-999]x[1-999]"])
def test_a_list_that_stands_for_too_many_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        expand_hosts(text)
    assert len(expand_hosts(f"n[1-{MOST_HOSTS}]")) == MOST_HOSTS


SPANS = st.tuples(st.integers(0, 50), st.integers(0, 5), st.integers(1, 4))
WORDS = st.text("abz.-_", min_size=1, max_size=4)


@given(st.lists(st.tuples(WORDS, st.lists(SPANS, min_size=1, max_size=3)), min_size=1))
def test_any_list_stands_for_each_name_that_it_was_made_of(
    groups: list[tuple[str, list[tuple[int, int, int]]]],
) -> None:
    texts, names = [], []
    for word, spans in groups:
        parts = [f"{first:0{w}d}-{first + more:0{w}d}" for first, more, w in spans]
        texts.append(f"{word}[{','.join(parts)}]")
        for first, more, width in spans:
            numbers = range(first, first + more + 1)
            names += [word + f"{n:0{width}d}" for n, _ in product(numbers, [0])]

    assert expand_hosts(",".join(texts)) == names


REFUSED = """\
0: paceline: joined as host-1: run 5, started with train.py
1: paceline: error: paceline 0.2 is installed here, and 0.1 at the launcher
srun: error: n3: task 1: Exited with exit code 2
"""
WORDS = "paceline: error: paceline 0.2 is installed here, and 0.1 at the launcher"
NO_PYTHON = """\
1: slurmstepd-n3: error: execve(): /opt/bin/python: No such file or directory
0: slurmstepd-n2: error: execve(): /opt/bin/python: No such file or directory
srun: error: n[2-3]: tasks 0-1: Exited with exit code 2
"""


def gone_in(text: str) -> dict[str, str]:
    """Who is gone by a log, once it is looked at again."""
    log = StepLog()
    assert not log.read(text.encode())
    return log.read(b"")


def test_a_machine_that_has_ended_is_known_with_its_own_last_words() -> None:
    assert gone_in(REFUSED) == {"n3": f"Exited with exit code 2: {WORDS}"}
    why = "error: execve(): /opt/bin/python: No such file or directory"
    assert gone_in(NO_PYTHON) == {
        name: f"Exited with exit code 2: slurmstepd-{name}: {why}" for name in ("n2", "n3")
    }
    assert gone_in("srun: error: n9: task 7: Killed\n") == {"n9": "Killed"}


@pytest.mark.parametrize(
    "line",
    [
        "1: paceline: the job is over",
        "srun: error: n3: task 1: Exited with exit code 75",  # it was told to leave
        "srun: error: n[3: task 1: Killed",
        "1: srun: error: n3: task 1: Killed",
        " 1: see \rsrun: error: n3: task 1: Killed",
        "1: \u2028srun: error: n3: task 1: Killed",
    ],
)
def test_who_is_not_known_to_have_failed_is_not_gone(line: str) -> None:
    """Neither where a script writes what only srun says of it."""
    assert gone_in(f"{line}\n") == {}


def test_last_words_that_come_after_sruns_are_told_and_nobody_is_told_twice() -> None:
    log, (own, srun) = StepLog(), REFUSED.encode().splitlines(keepends=True)[1:]

    assert not log.read(srun)
    assert log.read(own) == {"n3": f"Exited with exit code 2: {WORDS}"}
    assert not log.read(srun)
    assert not log.read(b"")


@given(st.lists(st.integers(0, len(REFUSED))))
def test_a_log_says_the_same_in_whatever_pieces_it_comes(cuts: list[int]) -> None:
    log, told = StepLog(), dict[str, str]()
    ends = [*sorted(cuts), len(REFUSED), len(REFUSED)]

    for start, end in zip([0, *ends], ends, strict=False):
        told |= log.read(REFUSED[start:end].encode())

    assert told == gone_in(REFUSED)


def test_a_line_without_an_end_is_not_kept() -> None:
    log = StepLog()
    for _ in range(10):
        log.read(b"1: x" * LINE_BYTES)
    assert len(log._rest) == LINE_BYTES

    log.read(b"\nsrun: error: n3: task 9: Killed\n")
    assert log.read(b"") == {"n3": "Killed"}
