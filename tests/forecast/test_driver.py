"""Whoever is driven is told what it asked for, in its own order, and nothing else."""

from typing import final

from paceline.forecast.driver import ActDriver
from paceline.messages.shared import Done, Message
from paceline.trainer.acts import (
    Act,
    Ask,
    Asking,
    Collect,
    ForgetPosted,
    Pause,
    Replies,
    SendPosted,
)

BOTH: dict[str, Message] = {"server-0": Done(), "server-1": Done()}


@final
class Driven(ActDriver):
    """Notes what is sent, what is waited for, and what the act was told."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, str]] = []
        self.waited: list[str] = []
        self.told: list[Replies] = []
        self.asking = Asking(patience_s=1.0)
        super().__init__(self.act(), self.asking)
        self.resume(None)

    def act(self) -> Act[None]:
        self.asking.post(BOTH)
        second = self.asking.post(BOTH)
        yield SendPosted()
        self.told.append((yield Ask(BOTH)))
        yield Pause(1.0)
        self.told.append((yield Collect(second)))
        yield ForgetPosted()
        self.told.append((yield Ask({"server-0": Done()})))

    def carry(self, number: int, role: str, message: Message) -> None:
        assert message in BOTH.values()
        self.sent.append((number, role))

    def waits(self, wanted: Ask | Collect | Pause) -> None:
        self.waited.append(type(wanted).__name__)

    def resume(self, replies: Replies | None) -> None:
        try:
            while (told := self.go_on(replies)) is not None:
                replies = told
        except StopIteration:
            self.waited.append("nothing")


def answer(driven: Driven, number: int) -> None:
    for role in BOTH:
        driven.got(number, role, Done())


def test_what_is_posted_goes_at_once_and_only_questions_are_waited_for() -> None:
    driven = Driven()
    assert driven.sent == [(n, role) for n in (1, 2, 0) for role in BOTH]
    assert driven.waited == ["Ask"]


def test_it_goes_on_when_all_have_answered_what_it_waits_for() -> None:
    driven = Driven()
    answer(driven, 2)
    driven.got(0, "server-1", Done())
    assert not driven.told
    driven.got(0, "server-0", Done())
    assert driven.told == [BOTH]
    assert driven.waited == ["Ask", "Pause"]
    driven.resume({})  # what has come by then is not waited for
    assert driven.told == [BOTH, BOTH]
    assert driven.waited == ["Ask", "Pause", "Ask"]


def test_what_was_forgotten_is_answered_to_nobody() -> None:
    driven = Driven()
    answer(driven, 2)
    answer(driven, 0)
    driven.resume({})
    answer(driven, 1)
    assert driven.waited[-1] == "Ask"
    driven.got(0, "server-0", Done())
    assert driven.waited[-1] == "nothing"
