"""A coordinator that does not answer is waited for, and not for ever."""

import pytest

from paceline.errors import JobFailed
from paceline.ids import COORDINATOR
from paceline.messages.trainer import Save
from paceline.trainer.acts import Ask, Asking, Lost, Pause
from paceline.trainer.membership import CLOSE_PATIENCE_S
from tests.trainer.fake_job import FakeJob


def seconds_of(wanted: object) -> float:
    """For how long an act wants to wait."""
    assert isinstance(wanted, Pause)
    return wanted.seconds


@pytest.mark.parametrize("answers_after_s", [0.0, 10.0], ids=["refuses", "is silent"])
def test_it_is_given_up_when_the_patience_is_over(answers_after_s: float) -> None:
    asking = Asking(patience_s=30.0)
    act = asking.insist(Save(incarnation=1, timeline=0, number=1))
    wanted, passed_s = next(act), 0.0
    said = ""
    while not said:
        passed_s += answers_after_s if isinstance(wanted, Ask) else seconds_of(wanted)
        asking.now_s = passed_s
        lost = {COORDINATOR: Lost("gone")} if isinstance(wanted, Ask) else {}
        try:
            wanted = act.send(lost)
        except JobFailed as error:
            said = str(error)
    assert "no coordinator for 3" in said
    assert 30.0 < passed_s <= 30.0 + 2 * 10.0


def test_who_leaves_waits_a_few_seconds_at_most() -> None:
    job = FakeJob()
    session = job.session()
    asking = session.membership.carrier.protocol.asking
    assert asking.patience_s > CLOSE_PATIENCE_S
    session.close()
    assert asking.patience_s == CLOSE_PATIENCE_S
