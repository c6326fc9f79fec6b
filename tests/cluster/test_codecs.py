"""With every codec trainers learn, end with the same bits, and count every batch once."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn

import paceline
from paceline.config import JobConfig, Pace, parse_pace
from paceline.launch.embedded import EmbeddedJob

RECORDS, BATCH, TASK, EPOCHS = 512, 16, 64, 6
CODECS = ["fp16", "bf16", "int8", "top10%"]


class Net(nn.Module):
    """A little of everything that travels: dense blocks, a table, a weight of torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.user = paceline.Embedding("user", 8, optimizer=paceline.Adagrad(lr=0.2))
        self.item = nn.Embedding(50, 8, sparse=True)
        self.layers = nn.Sequential(nn.Linear(22, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, ids: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        rows = torch.cat([self.user(ids % 40), self.item(ids // 40), features], dim=1)
        found: torch.Tensor = self.layers(rows)
        return found


Data = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def columns() -> Data:
    draw = torch.Generator().manual_seed(5)
    ids = torch.randint(0, 2000, (RECORDS,), generator=draw)
    features = torch.randn(RECORDS, 6, generator=draw)
    taste = torch.randn(40, generator=draw)[ids % 40]
    target = (features[:, 0] * features[:, 1] + taste + features.sum(1))[:, None]
    return ids, features, target


class Outcome(NamedTuple):
    losses: list[float]  # of all data, by each trainer at the end
    weights: list[list[torch.Tensor]]  # of each trainer
    summary: dict[str, object]
    counters: dict[str, int]


def train(folder: Path, pace: Pace, trainers: int) -> Outcome:
    config = JobConfig(
        run=f"codec-{folder.name}", trainers=trainers, servers=2, pace=pace, timeout_s=60.0
    )
    data = columns()
    job = EmbeddedJob(config, folder)
    torch.manual_seed(3)
    models = [Net() for _ in range(trainers)]
    losses = [0.0] * trainers
    errors: list[BaseException] = []

    def loop(index: int) -> None:
        try:
            session, model = job.session(f"trainer-{index}"), models[index]
            optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.02))
            for ids, features, target in session.batches(
                data, BATCH, epochs=EPOCHS, task_size=TASK, seed=11
            ):
                nn.functional.mse_loss(model(ids, features), target).backward()
                optimizer.step()
                optimizer.zero_grad()
            model.eval()
            with torch.no_grad():
                loss = nn.functional.mse_loss(model(data[0], data[1]), data[2])
            losses[index] = loss.item()
        except BaseException as error:  # noqa: BLE001  (raised again by the test)
            errors.append(error)

    threads = [threading.Thread(target=loop, args=(i,)) for i in range(trainers)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert not any(thread.is_alive() for thread in threads), "a trainer hangs"
    finally:
        summary = job.close()
    if errors:
        raise errors[0]
    weights = [[p.detach().clone() for p in model.parameters()] for model in models]
    counters = summary["counters"]
    assert isinstance(counters, dict)
    return Outcome(losses, weights, summary, counters)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return train(tmp_path_factory.mktemp("plain") / "job", parse_pace("sync"), 2)


def assert_learned(outcome: Outcome, plain: Outcome) -> None:
    """Within a tenth of what a plain job comes to, which is far below the beginning."""
    assert plain.losses[0] < 0.5 * float(columns()[2].square().mean())
    for loss in outcome.losses:
        assert loss <= 1.1 * plain.losses[0], f"{loss} and {plain.losses[0]}"


def assert_counted(outcome: Outcome, codec: str | None) -> None:
    """Bytes before and after coding are as the codec says."""
    counted = {name: outcome.counters[f"part-0.{name}"] for name in BYTES}
    gradients = counted["gradient_bytes_sent"] / counted["gradient_bytes"]
    values = counted["value_bytes_sent"] / counted["value_bytes"]
    least, most = GRADIENTS[codec]
    assert least <= gradients <= most
    assert values == (0.5 if codec in {"fp16", "bf16"} else 1.0)


BYTES = ["gradient_bytes", "gradient_bytes_sent", "value_bytes", "value_bytes_sent"]
# {codec: what it makes of a byte of gradients, at least and at most}; half of them are of
# rows of 8 elements, which have a scale of their own in int8, and are no matter of top-k.
GRADIENTS: dict[str | None, tuple[float, float]] = {
    None: (1.0, 1.0),
    "fp16": (0.5, 0.5),
    "bf16": (0.5, 0.5),
    "int8": (0.25, 0.375),
    "top10%": (0.16, 0.8),
}


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_lockstep_learns_as_well_and_ends_with_the_same_bits(
    codec: str, plain: Outcome, tmp_path: Path
) -> None:
    outcome = train(tmp_path / "job", parse_pace(f"sync:codec={codec}"), 3)
    assert outcome.summary["records"] == RECORDS * EPOCHS
    for other in outcome.weights[1:]:
        for mine, theirs in zip(outcome.weights[0], other, strict=True):
            assert torch.equal(mine, theirs)
    assert len(set(outcome.losses)) == 1, "rows differ"
    assert_learned(outcome, plain)
    assert_counted(outcome, codec)


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "push=2,pull=4,"], ids=["alone", "overlapping"])
@pytest.mark.parametrize("codec", CODECS)
def test_a_free_trainer_learns_as_well(
    codec: str, options: str, plain: Outcome, tmp_path: Path
) -> None:
    pace = parse_pace(f"async:{options}codec={codec}")
    outcome = train(tmp_path / "job", pace, 1)
    assert outcome.summary["records"] == RECORDS * EPOCHS
    assert_learned(outcome, plain)
    assert_counted(outcome, codec)


def test_without_a_codec_all_bytes_travel(plain: Outcome) -> None:
    assert_counted(plain, None)
