"""The last number of a name is the one that was noted last, not the one that came last."""

from paceline.coordinator.ledgers.figures import Metrics


def test_a_number_that_waited_does_not_replace_one_noted_since() -> None:
    metrics = Metrics()
    metrics.note({"loss": 0.1}, {}, now=9.0)
    metrics.note({"loss": 0.7, "auc": 0.5}, {"loss": 4.0, "auc": 4.0}, now=10.0)
    assert metrics.last() == {"loss": 0.1, "auc": 0.5}


def test_a_number_that_waited_replaces_what_was_noted_before_it() -> None:
    metrics = Metrics()
    metrics.note({"loss": 0.7}, {}, now=5.0)
    metrics.note({"loss": 0.1}, {"loss": 4.0}, now=10.0)
    metrics.note({"loss": None}, {}, now=10.0)
    assert metrics.last() == {"loss": None}
