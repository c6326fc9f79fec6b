"""What cannot be written is said once, and once when it works again."""

from paceline.messages import Trouble
from paceline.watch.troubles import Troubles

FULL = Trouble("journal", "/job", "waiting for space on the disk of /job", 1.0)
NO_CUT = Trouble("checkpoint", "/cuts", "no checkpoint can be written", None)


def test_a_failed_checkpoint_is_said_once_and_again_when_it_works() -> None:
    troubles = Troubles()
    assert troubles.note(None) == []
    assert troubles.note(NO_CUT) == [NO_CUT.text]
    assert troubles.note(NO_CUT) == []
    assert troubles.note(None) == ["checkpoints are written again"]
    assert troubles.note(NO_CUT) == [NO_CUT.text]


def test_a_full_disk_hides_what_is_known_of_checkpoints_and_ends_nothing() -> None:
    troubles = Troubles()
    troubles.note(NO_CUT)
    assert troubles.note(FULL) == [FULL.text]
    assert troubles.note(FULL) == []
    again = "there is space on the disk of /job again: the job goes on"
    assert troubles.note(NO_CUT) == [again]
    assert troubles.note(FULL) == [FULL.text]
    assert troubles.note(None) == [again, "checkpoints are written again"]
