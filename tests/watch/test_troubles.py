"""What cannot be written is said when it begins, every ten seconds, and when it is over."""

from msgspec.structs import replace

from paceline.messages.watching import Trouble
from paceline.watch.progress import AGAIN_S, Troubles

FULL = Trouble("journal", "/job", "waiting for space on the disk of /job", 1.0)
NO_CUT = Trouble("checkpoint", "/cuts", "no checkpoint can be written", None)


def test_a_failed_checkpoint_is_said_and_again_when_it_works() -> None:
    troubles = Troubles()
    assert troubles.note(None, 0.0) == []
    assert troubles.note(NO_CUT, 1.0) == [NO_CUT.text]
    assert troubles.note(NO_CUT, 2.0) == []
    assert troubles.note(None, 3.0) == ["checkpoints are written again"]
    assert troubles.note(None, 99.0) == []
    assert troubles.note(NO_CUT, 100.0) == [NO_CUT.text]


def test_what_lasts_is_said_every_ten_seconds_with_the_words_of_the_moment() -> None:
    for trouble in (FULL, NO_CUT):
        troubles, told = Troubles(), []
        for tenth in range(601):
            now = replace(trouble, text=f"{trouble.text}, since {tenth // 10} s")
            told += [(tenth / 10, said) for said in troubles.note(now, tenth / 10)]
        assert AGAIN_S == 10.0
        assert told == [
            (float(s), f"{trouble.text}, since {s} s") for s in range(0, 61, 10)
        ]


def test_a_full_disk_hides_what_is_known_of_checkpoints_and_ends_nothing() -> None:
    troubles = Troubles()
    troubles.note(NO_CUT, 0.0)
    assert troubles.note(FULL, 1.0) == [FULL.text]
    assert troubles.note(FULL, 2.0) == []
    again = "there is space on the disk of /job again: the job goes on"
    assert troubles.note(NO_CUT, 3.0) == [again]
    assert troubles.note(FULL, 4.0) == [FULL.text]
    assert troubles.note(None, 5.0) == [again, "checkpoints are written again"]
