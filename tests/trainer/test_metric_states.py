"""Metrics from states of tasks: what torchmetrics makes of the whole data set at once."""

from typing import Any

import pytest
import torch
import torchmetrics
from torchmetrics import classification, retrieval

from paceline.ids import TaskKey
from paceline.trainer.metric_states import MetricStates
from paceline.trainer.verdicts import Task

RECORDS = 101
TASK = Task(TaskKey(0, 0, 0), 0, 0)
draw = torch.Generator().manual_seed(2)
SCORES = torch.rand(RECORDS, generator=draw)
LABELS = (SCORES + torch.rand(RECORDS, generator=draw) > 1).long()
TARGETS = SCORES + 0.3 * torch.randn(RECORDS, generator=draw)
CLASSES = torch.rand(RECORDS, 4, generator=draw)
CLASS = torch.randint(4, (RECORDS,), generator=draw)

EXACT: dict[str, tuple[Any, tuple[torch.Tensor, ...]]] = {
    "counts": (classification.MulticlassConfusionMatrix(4), (CLASSES, CLASS)),
    "accuracy": (torchmetrics.Accuracy("multiclass", num_classes=4), (CLASSES, CLASS)),
    "auc of all": (torchmetrics.AUROC("binary"), (SCORES, LABELS)),
    "auc of bins": (torchmetrics.AUROC("binary", thresholds=50), (SCORES, LABELS)),
    "curve": (torchmetrics.PrecisionRecallCurve("binary"), (SCORES, LABELS)),
    "largest": (torchmetrics.MaxMetric(), (SCORES,)),
    "smallest": (torchmetrics.MinMetric(), (SCORES,)),
    "all": (torchmetrics.CatMetric(), (SCORES,)),
    "retrieval": (retrieval.RetrievalMAP(), (SCORES, LABELS, CLASS)),
}
CLOSE: dict[str, tuple[Any, tuple[torch.Tensor, ...]]] = {
    "sum": (torchmetrics.SumMetric(), (SCORES,)),
    "mean": (torchmetrics.MeanMetric(), (SCORES, TARGETS.abs())),
    "squares": (torchmetrics.MeanSquaredError(), (SCORES, TARGETS)),
    "variance": (torchmetrics.ExplainedVariance(), (SCORES, TARGETS)),
    "correlation": (torchmetrics.PearsonCorrCoef(), (SCORES, TARGETS)),
    "composed": (torchmetrics.SumMetric() + torchmetrics.MaxMetric(), (SCORES,)),
    "by class": (
        torchmetrics.ClasswiseWrapper(
            torchmetrics.Accuracy("multiclass", num_classes=4, average=None)
        ),
        (CLASSES, CLASS),
    ),
}


def computed(metric: Any, columns: tuple[torch.Tensor, ...], task: int, batch: int) -> Any:
    """By tasks, each of several batches; the last ones are short."""
    states = MetricStates(metric)
    encoded = []
    for first in range(0, RECORDS, task):
        states.begin()
        for start in range(first, min(first + task, RECORDS), batch):
            stop = min(start + batch, first + task)
            batch_of = tuple(column[start:stop] for column in columns)
            states.add(start, stop - start, batch_of)
        encoded.append(states.finish(TASK))
    return states.decode(states.value(encoded, 0))


@pytest.mark.parametrize("name", [*EXACT, *CLOSE])
def test_the_value_is_that_of_one_process(name: str) -> None:
    metric, columns = {**EXACT, **CLOSE}[name]
    value = computed(metric, columns, task=20, batch=7)
    alone = metric.clone()
    alone.update(*columns)
    how = {"rtol": 0.0, "atol": 0.0} if name in EXACT else {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(value, alone.compute(), **how)


def test_a_collection_is_computed_whole_with_its_own_names() -> None:
    collection = torchmetrics.MetricCollection(
        {
            "auc": torchmetrics.AUROC("binary"),
            "accuracy": torchmetrics.Accuracy("binary"),
            "precision": torchmetrics.Precision("binary"),
            "recall": torchmetrics.Recall("binary"),  # the three share a state
        },
        prefix="test/",
    )
    value = computed(collection, (SCORES, LABELS), task=20, batch=7)
    collection.update(SCORES, LABELS)
    assert ["accuracy", "precision", "recall"] in collection.compute_groups.values()
    torch.testing.assert_close(value, collection.compute(), rtol=0.0, atol=0.0)
    again = computed(collection, (SCORES, LABELS), task=33, batch=11)
    torch.testing.assert_close(again, collection.compute(), rtol=0.0, atol=0.0)


def test_one_argument_needs_no_tuple_and_the_users_metric_stays_as_it_is() -> None:
    metric = torchmetrics.SumMetric()
    metric.update(torch.tensor(5.0))
    states = MetricStates(metric)
    states.begin()
    states.add(0, 1, torch.tensor(2.0))
    value = states.value([states.finish(TASK), states.finish(TASK)], 0)
    assert states.decode(value) == 4.0
    assert metric.compute() == 5.0
    assert metric.dist_sync_fn is None
