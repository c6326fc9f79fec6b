"""Three trainers evaluate together, each in a thread: the value is that of one process."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torchmetrics
from torch import nn

import paceline
from paceline import IncompleteWarning
from paceline.config import Async, Pace, Sync
from paceline.messages.results import MAX_RESULT_BYTES
from tests.cluster.together import BATCH, RECORDS, TASK, columns, shared


def train(session: paceline.Session, model: nn.Module, optimizer: Any, **how: Any) -> None:
    for features, label in session.batches(columns(), BATCH, task_size=TASK, **how):
        loss = nn.functional.cross_entropy(model(features), label)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def accuracy() -> torchmetrics.Metric:
    return torchmetrics.classification.MulticlassConfusionMatrix(2)


@pytest.mark.slow
@pytest.mark.parametrize("pace", [Sync(), Async()])
def test_the_value_is_that_of_one_process_and_the_same_for_all(
    run: Any, pace: Pace
) -> None:
    def script(session: paceline.Session) -> Any:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = shared(session, model)
        train(session, model, optimizer)
        value = session.evaluate(
            accuracy(), lambda b: (model(b[0]), b[1]), columns(), batch_size=BATCH
        )
        return value, [p.detach().clone() for p in model.parameters()], session.records

    found = run(script, pace=pace)
    model = nn.Linear(3, 2)
    with torch.no_grad():
        for mine, theirs in zip(model.parameters(), found[0][1], strict=True):
            mine.copy_(theirs)
        expected = accuracy()
        features, label = columns()
        expected.update(model(features), label)
    assert expected.compute().sum() == RECORDS
    for value, parameters, records in found:
        assert torch.equal(value, expected.compute())
        assert all(map(torch.equal, parameters, found[0][1]))
        assert records == RECORDS


@pytest.mark.slow
def test_a_collection_with_curves_is_computed_as_by_one_process(run: Any) -> None:
    metrics = torchmetrics.MetricCollection(
        {
            "auc": torchmetrics.AUROC("binary"),  # keeps every record
            "mean": torchmetrics.MeanMetric(),
            "correlation": torchmetrics.PearsonCorrCoef(),  # has a reduction of its own
            "accuracy": torchmetrics.Accuracy("binary"),
            "f1": torchmetrics.F1Score("binary"),  # shares its state with accuracy
        }
    )
    features, label = columns()

    def step(batch: Any) -> Any:
        return torch.sigmoid(batch[0].sum(1)), batch[1].float().long()

    collection = torchmetrics.MetricCollection(
        {name: metrics[name] for name in ("auc", "accuracy", "f1")}
    )

    def script(session: paceline.Session) -> Any:
        shared(session, nn.Linear(3, 2))
        first = session.evaluate(collection, step, columns(), batch_size=BATCH)
        mean = session.evaluate(
            metrics["mean"], lambda b: step(b)[0], columns(), batch_size=BATCH
        )
        pearson = session.evaluate(
            metrics["correlation"],
            lambda b: (step(b)[0], b[1].float()),
            columns(),
            batch_size=BATCH,
        )
        return {**first, "mean": mean, "correlation": pearson}

    found = run(script)
    scores = step((features, label))[0]
    for name in ("auc", "accuracy", "f1"):
        alone = collection[name].clone()
        alone.update(scores, label)
        assert torch.equal(found[0][name], alone.compute()), name
    torch.testing.assert_close(found[0]["mean"], scores.mean())
    expected = torch.corrcoef(torch.stack([scores, label.float()]))[0, 1]
    torch.testing.assert_close(found[0]["correlation"], expected)
    assert found[0] == found[1] == found[2]
    assert collection["auc"].update_count == 0, "the user's own metric was touched"


@pytest.mark.slow
@pytest.mark.parametrize("pace", [Sync(), Async()])
def test_all_evaluate_with_the_same_running_averages(run: Any, pace: Pace) -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def script(session: paceline.Session) -> Any:
        torch.manual_seed(0)
        model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
        optimizer = shared(session, model)
        train(session, model, optimizer, epochs=2)
        before = model[0].running_mean.clone()

        def step(batch: Any) -> Any:
            seen.append((model[0].running_mean.clone(), model[0].running_var.clone()))
            return torch.zeros(len(batch[1])), batch[1]

        session.evaluate(torchmetrics.MeanMetric(), step, columns(), batch_size=BATCH)
        return before

    befores = run(script, pace=pace)
    different = {tuple(before.tolist()) for before in befores}
    assert len(different) == 1, "the loop has ended with one average for all"
    assert all(torch.equal(mean, seen[0][0]) for mean, _ in seen)
    assert all(torch.equal(var, seen[0][1]) for _, var in seen)
    assert tuple(seen[0][0].tolist()) in different


@pytest.mark.slow
def test_models_evaluate_and_are_as_before_afterwards(run: Any) -> None:
    def script(session: paceline.Session) -> Any:
        torch.manual_seed(0)
        rows = paceline.Embedding("ids", 2, optimizer=paceline.Adagrad(lr=0.05))
        model = nn.Sequential(rows, nn.Dropout(), nn.Linear(2, 2))
        optimizer = shared(session, model)
        model[1].eval()  # the user's own choice
        ids = torch.arange(RECORDS)
        seen: list[Any] = []

        def step(batch: Any) -> Any:
            modes = {module.training for module in model.modules()}
            seen.append((modes, torch.is_grad_enabled()))
            return model(batch).argmax(1), torch.zeros(len(batch), dtype=torch.long)

        session.evaluate(accuracy(), step, ids, batch_size=BATCH)
        with pytest.raises(ZeroDivisionError):
            session.evaluate(accuracy(), lambda _: 1 // 0, ids, batch_size=BATCH)
        modes = [module.training for module in model.modules()]
        del optimizer
        return seen, modes

    [(seen, modes)] = run(script, trainers=1)
    assert seen
    assert all(found == ({False}, False) for found in seen)
    assert modes == [True, True, False, True]


@pytest.mark.slow
def test_what_cannot_be_is_refused_with_what_to_do(run: Any) -> None:
    def script(session: paceline.Session) -> None:
        model = nn.Linear(3, 2)
        with pytest.raises(paceline.UsageError, match="evaluate: share a model"):
            session.evaluate(accuracy(), lambda b: b, columns())
        optimizer = shared(session, model)
        with pytest.raises(paceline.UsageError, match=r"expected a torchmetrics\.Metric"):
            session.evaluate(model, lambda b: b, columns())
        metric = torchmetrics.MeanMetric(sync_on_compute=False)
        with pytest.raises(paceline.UsageError, match="sync_on_compute=False"):
            session.evaluate(metric, lambda b: b[0], columns())
        with pytest.raises(paceline.UsageError, match="expected writer to be a folder"):
            session.predict(lambda b: b[0], columns(), 3)  # type: ignore[arg-type]
        batches = session.batches(columns(), BATCH)
        next(batches)
        with pytest.raises(paceline.UsageError, match="evaluate: end the loop first"):
            session.evaluate(accuracy(), lambda b: b, columns())
        optimizer.zero_grad()
        batches.close()  # type: ignore[attr-defined]  # not by whoever collects garbage

    run(script, trainers=1)


@pytest.mark.slow
def test_a_state_that_grows_too_large_is_refused_by_what_to_do(run: Any) -> None:
    def script(session: paceline.Session) -> None:
        shared(session, nn.Linear(3, 2))
        metric = torchmetrics.CatMetric()
        wide = torch.zeros(MAX_RESULT_BYTES // 4 // BATCH + 1)
        text = "evaluate: the state is too large: the result of a task .*thresholds="
        with pytest.raises(paceline.UsageError, match=text):
            session.evaluate(
                metric, lambda _: wide, columns(), batch_size=BATCH, task_size=4 * BATCH
            )

    run(script, trainers=1)


class Unreadable(torch.utils.data.Dataset[Any]):
    """One record cannot be read."""

    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> Any:
        if index == 50:
            raise ValueError("record 50 is broken")
        return torch.tensor(float(index))


@pytest.mark.slow
def test_a_given_up_task_leaves_an_evaluation_incomplete_with_a_warning(run: Any) -> None:
    def script(session: paceline.Session) -> Any:
        shared(session, nn.Linear(3, 2))
        with pytest.warns(IncompleteWarning, match="evaluate: 1 of 9 tasks were given up"):
            return session.evaluate(
                torchmetrics.SumMetric(),
                lambda b: b,
                Unreadable(),
                batch_size=BATCH,
                task_size=TASK,
            )

    [value] = run(script, trainers=1)
    assert value == sum(range(RECORDS)) - sum(range(48, 60))
    summary = run.jobs[0].close()
    assert summary["tasks"] == {"done": 8, "failed": 1}
    assert summary["records"] == 0
    assert summary["epochs"] == 0


@pytest.mark.slow
def test_a_script_that_begins_again_is_told_the_value_at_once(run: Any) -> None:
    def script(session: paceline.Session) -> Any:
        shared(session, nn.Linear(3, 2))
        first = session.evaluate(torchmetrics.SumMetric(), lambda b: b[0], columns())
        session._stages.num_begun = 0  # as a restarted script would: the stage once more

        never = {}.__getitem__  # a batch that came would be an error
        return first, session.evaluate(torchmetrics.SumMetric(), never, columns())

    [(first, again)] = run(script, trainers=1)
    assert torch.equal(first, again)


@pytest.mark.slow
def test_large_values_lie_beside_the_cuts_once_each(run: Any) -> None:
    num_classes, evaluations = 64, 4  # a state of 32 KiB in every task
    metric = torchmetrics.classification.MulticlassConfusionMatrix(num_classes)

    def script(session: paceline.Session) -> Any:
        shared(session, nn.Linear(3, 2))

        def evaluate(number: int) -> Any:
            labels = torch.full((BATCH,), number)
            return session.evaluate(
                metric, lambda b: (labels[: len(b[1])],) * 2, columns(), batch_size=BATCH
            )

        values = [evaluate(number) for number in range(evaluations)]
        session._stages.num_begun = 0  # as a restarted script would
        again = [evaluate(0) for _ in range(evaluations)]
        return values, again

    found = run(script)
    for values, again in found:
        assert [int(value.diagonal().argmax()) for value in values] == [0, 1, 2, 3]
        assert all(value.sum() == RECORDS for value in values)
        assert all(map(torch.equal, values, again))
    folder = Path(run.jobs[0].close()["job_dir"])
    value_bytes = num_classes * num_classes * 8
    manifests = list(folder.glob("checkpoints/*/manifest.json"))
    assert manifests
    assert max(path.stat().st_size for path in manifests) < 8192 < value_bytes
    kept = list(folder.glob("checkpoints/values/*"))
    assert len([path for path in kept if path.stat().st_size > value_bytes]) >= evaluations


@pytest.mark.slow
def test_after_an_early_stop_evaluations_run_and_loops_are_over(run: Any) -> None:
    def script(session: paceline.Session) -> Any:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = shared(session, model)
        for _ in session.batches(columns(), BATCH, task_size=TASK, epochs=100):
            optimizer.step()
            if session.records > 20:
                session.stop("good enough")
        for _ in range(3):  # three loops that are over at once, and one cut for them all
            assert not list(session.batches(columns(), BATCH))
        return session.evaluate(
            torchmetrics.SumMetric(),
            lambda b: torch.ones(len(b[1])),
            columns(),
            batch_size=BATCH,
        )

    assert run(script) == [RECORDS] * 3
    summary = run.jobs[0].close()
    assert summary["status"] == "stopped"
    events = [
        msgspec.json.decode(line)
        for line in (Path(summary["job_dir"]) / "events.jsonl").read_bytes().splitlines()
    ]
    ends = [e for e in events if e["event"] == "CutCommitted" and e["ends_stage"]]
    assert len(ends) == 3, "of the stopped loop, of three untouched ones, of the evaluation"
