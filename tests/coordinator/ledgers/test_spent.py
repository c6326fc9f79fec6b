"""What trainers tell of their time only grows, whichever message comes last."""

from paceline.coordinator.ledgers.members import MemberInfo
from paceline.messages.shared import SpentTime


def test_a_question_that_is_asked_again_takes_nothing_back() -> None:
    info = MemberInfo(0.0)
    info.note_spent(SpentTime(1.0, 2.0, 0.5, 0.0))
    info.note_spent(SpentTime(1.0, 2.0, 0.5, 9.0))
    info.note_spent(SpentTime(1.0, 2.0, 0.5, 0.0))
    info.note_spent(None)

    assert info.spent == SpentTime(1.0, 2.0, 0.5, 9.0)
