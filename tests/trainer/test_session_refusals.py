import inspect
import os

import pytest
import torch
from torch import nn

from paceline.config import Async
from paceline.errors import UsageError
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA, share_line


def test_a_forked_process_cannot_use_the_session(session: Session) -> None:
    session.membership.driver._pid = os.getpid() + 1
    with pytest.raises(UsageError, match="a forked process must not use it"):
        session.save()
    session.membership.driver._pid = os.getpid()


def test_batches_before_share_are_refused(session: Session) -> None:
    with pytest.raises(UsageError, match="share a model"):
        session.batches(DATA, 2)


def test_a_model_of_nothing_is_refused(session: Session) -> None:
    with pytest.raises(UsageError, match="neither trainable parameters nor embeddings"):
        session.share(nn.ReLU())


def test_a_parameter_is_shared_once(session: Session) -> None:
    model, _ = share_line(session)
    with pytest.raises(UsageError, match="'weight' is shared already"):
        session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))


def test_a_model_without_rows_is_no_hogwild(session: Session) -> None:
    model, hogwild = nn.Linear(2, 1), Async(isolation="hogwild")
    optimizer = torch.optim.Adam(model.parameters())
    with pytest.raises(UsageError, match=r"share: isolation=hogwild .* got one without"):
        session.share(model, optimizer, pace=hogwild)
    session.share(model, optimizer, pace=Async())


def test_another_part_than_the_jobs_is_refused(job: FakeJob, session: Session) -> None:
    share_line(session)
    with job.session() as other:
        model = nn.Linear(2, 1)
        with pytest.raises(UsageError, match="another part"):
            other.share(model, torch.optim.SGD(model.parameters(), lr=1.0))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"workers": -1}, "workers must be >= 0, got -1"),
        ({"batch_size": 0}, "batch_size"),
        ({"task_size": 3}, "multiple of batch_size"),
        ({"task_size": 0}, "task_size must be a whole number >= 1, got 0"),
        ({"dataset": iter([1])}, "map-style"),
    ],
)
def test_bad_arguments_of_batches_are_refused(
    session: Session, arguments: dict[str, object], text: str
) -> None:
    share_line(session)
    with pytest.raises(UsageError, match=text):
        session.batches(**{"dataset": DATA, "batch_size": 2, **arguments})  # type: ignore[arg-type]  # on purpose


def test_who_gives_a_loader_and_nothing_else_is_told_what_to_give(session: Session) -> None:
    share_line(session)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(DATA), batch_size=4)
    with pytest.raises(
        UsageError, match=r"session\.batches\(loader\.dataset, batch_size=4"
    ):
        session.batches(loader)
    with pytest.raises(UsageError, match="batch_size"):
        session.batches(DATA)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("num_workers", r"no num_workers=: write workers=n"),
        ("drop_last", "every record counts.* a last batch of one record breaks BatchNorm"),
        ("pin_memory", "not needed"),
        ("sampler", "shuffle=True and seed="),
        ("batch_sampler", "shuffle=True and seed="),
        ("bathc_size", "no bathc_size=: it takes dataset, batch_size, epochs"),
    ],
)
def test_words_of_a_loader_are_told_with_what_to_write(
    session: Session, word: str, told: str
) -> None:
    share_line(session)
    with pytest.raises(UsageError, match=told):
        session.batches(DATA, 2, **{word: 1})  # type: ignore[arg-type]  # on purpose


def test_a_word_that_is_not_known_names_all_that_are(session: Session) -> None:
    share_line(session)
    known = inspect.signature(session.batches).parameters
    with pytest.raises(UsageError) as refusal:
        session.batches(DATA, 2, nobody=1)  # type: ignore[arg-type]  # on purpose
    assert [name for name in known if name not in str(refusal.value)] == ["unknown"]


def test_one_loop_at_a_time(session: Session) -> None:
    share_line(session)
    outer = session.batches(DATA, 2)
    next(outer)
    with pytest.raises(UsageError, match="a loop is open already"):
        next(session.batches(DATA, 2))
    with pytest.raises(UsageError, match="before the loop"):
        share_line(session)
    outer.close()  # type: ignore[attr-defined]  # a generator
