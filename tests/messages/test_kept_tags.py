"""What is told on the wire and written to disk does not change unnoticed."""

import pytest

from tests.messages.kept_tags import FILE, Sections, broken, kept, now, reads, text

COMMAND = "python -m tests.messages.kept_tags"


def test_nothing_that_was_written_is_read_otherwise_under_the_same_version() -> None:
    assert not (lost := broken(kept(), now())), (
        "raise the version of the section, or keep the name with tag=; docs/releasing.md "
        "has the rule:\n" + "\n".join(lost)
    )


def test_the_list_of_tags_is_that_of_the_code() -> None:
    assert FILE.read_text(encoding="utf-8") == text(now()), f"run {COMMAND}"


@pytest.mark.parametrize(
    "line",
    [
        "Push: number, part",
        "Push: number, part, round",
        "Pushed: number, part, round?",
        "trainer asks server: Shove",
    ],
)
def test_a_field_or_a_tag_that_is_lost_is_caught(line: str) -> None:
    for before in ("Push: number, part, round?", "trainer asks server: Push"):
        told: Sections = {"wire": (1, frozenset([before]))}
        assert broken(told, {"wire": (1, frozenset([line]))})
        assert not broken(told, {"wire": (2, frozenset([line]))})


@pytest.mark.parametrize(
    ("before", "after", "is_read"),
    [
        ("Push: number", "Push: number, round?", True),
        ("Push: number", "Push: number, round", False),
        ("Push: number?", "Push: number", False),
        ("Push: number", "Push: number?", True),
        ("(Lease): token", "(Grant): token", True),
        ("(Lease): token", "(Lease): token, key", False),
        ("(Span): [task, first]", "(Span): [task, first, last?]", True),
        ("(Span): [task, first]", "(Span): [task, first, last]", False),
        ("(Span): [task, first]", "(Span): [first, task]", False),
        ("zeros:", "zeros:", True),
    ],
)
def test_a_field_may_come_if_it_may_be_missing(
    before: str, after: str, is_read: bool
) -> None:
    assert reads(after, before) == is_read
