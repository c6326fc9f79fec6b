"""A model that is unshared is the script's own again; shared anew, it trains on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import paceline
from paceline.cli import main as cli
from paceline.config import JobConfig, parse_pace
from paceline.errors import PacelineError, UsageError
from paceline.launch.embedded import EmbeddedJob
from paceline.watch.summary import Ending, Verdict

Run = Callable[..., list[Any]]
DATA = torch.arange(24.0).reshape(24, 1)
SUM = float(DATA.sum())


class Counters(nn.Module):
    """Each counter that is trained grows by every record, whoever trains it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(1), requires_grad=False)
        self.second = nn.Parameter(torch.zeros(1))
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen += 1
        return batch.sum() * (self.first + self.second).sum()


class PowerGoneError(Exception):
    """The power goes."""


def train(
    session: Any,
    model: nn.Module,
    *,
    dies_at: int = -1,
    saves: bool = False,
    pace: Any = None,
) -> Any:
    own = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(own, lr=1.0, maximize=True, momentum=0.0)
    stepped = session.share(model, optimizer, pace=pace)
    for number, batch in enumerate(session.batches(DATA, 2, task_size=4)):
        if number == dies_at:
            if saves:
                session.save()
            raise PowerGoneError
        stepped.zero_grad()
        model(batch).backward()
        stepped.step()
    return stepped


def unfreeze(
    session: Any, *, dies_at: int = -1, saves: bool = False, ends_before: bool = False
) -> tuple[float, float, float]:
    """Train the head, then all; what the head was at between them, and both at the end."""
    model = Counters()
    train(session, model)
    session.unshare(model)
    between = model.second.item()
    if ends_before:
        raise PowerGoneError
    model.first.requires_grad_(requires_grad=True)
    train(session, model, dies_at=dies_at, saves=saves)
    return between, model.first.item(), model.second.item()


def begin(folder: Path, *, is_resumed: bool = False, trainers: int = 1) -> EmbeddedJob:
    config = JobConfig(
        run="again" if is_resumed else "first", trainers=trainers, pace=parse_pace("async")
    )
    return EmbeddedJob(config, folder, is_resumed=is_resumed)


@pytest.mark.parametrize(
    "pace", ["sync:reduce=sum", "async", "async:push=3", "ssp:staleness=2"]
)
@pytest.mark.parametrize("trainers", [1, 3])
def test_the_next_loop_trains_what_was_unfrozen_on_every_trainer(
    run: Run, pace: str, trainers: int
) -> None:
    found = run(unfreeze, trainers=trainers, pace=parse_pace(pace))
    assert found == [(SUM, SUM, 2 * SUM)] * trainers


def test_trainers_that_step_themselves_go_on_in_the_next_loop(run: Run) -> None:
    def script(session: paceline.Session) -> list[float]:
        model = Counters()
        train(session, model, pace="local:2")
        session.unshare(model)
        model.first.requires_grad_(requires_grad=True)
        train(session, model, pace="async")
        return [model.first.item(), model.second.item()]

    first, second, third = run(script)
    assert first == second == third
    assert first[0] == SUM


@pytest.mark.parametrize("ends_before", [False, True])
def test_a_trainer_that_begins_again_finds_the_values_of_the_part_that_has_ended(
    tmp_path: Path, *, ends_before: bool
) -> None:
    job = begin(tmp_path / "job")
    session = job.session("trainer-0")
    with pytest.raises(PowerGoneError):
        unfreeze(session, dies_at=5, ends_before=ends_before)
    session.membership.abandon()
    session.membership.driver.close()
    assert unfreeze(job.session("trainer-0")) == (SUM, SUM, 2 * SUM)
    assert job.close()["status"] == "finished"


@pytest.mark.parametrize("saves", [False, True])
def test_a_resumed_job_goes_on_in_the_part_that_came_after(
    tmp_path: Path, *, saves: bool
) -> None:
    job = begin(tmp_path / "job")
    session = job.session("trainer-0")
    with pytest.raises(PowerGoneError):
        unfreeze(session, dies_at=5, saves=saves)
    job.close(Verdict(Ending.FAILED, "the power went"))
    session.membership.driver.close()
    job = begin(tmp_path / "job", is_resumed=True)
    assert unfreeze(job.session("trainer-0")) == (SUM, SUM, 2 * SUM)
    summary = job.close()
    assert (summary["status"], summary["records"]) == ("finished", 48)


def test_an_export_is_of_what_is_shared_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = begin(tmp_path / "job")
    with job.session("trainer-0") as session:
        unfreeze(session)
    job.close()
    for part, expected in (("", [SUM, 2 * SUM]), ("0", [0.0, SUM])):
        out = tmp_path / f"model{part}.safetensors"
        chosen = ["--part", part] if part else []
        where = [str(tmp_path / "job"), "--out", str(out)]
        monkeypatch.setattr(
            "sys.argv", ["paceline", "checkpoint", "export", *where, *chosen]
        )
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert left.value.code == 0
        model = Counters()
        model.load_state_dict(load_file(out))
        assert [model.first.item(), model.second.item()] == expected
        assert model.seen.item() == 24.0


def test_an_optimizer_that_was_given_is_the_scripts_own_again(run: Run) -> None:
    def script(session: paceline.Session) -> list[float]:
        model = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(model.weight)
        own = torch.optim.SGD(model.parameters(), lr=1.0, maximize=True)
        stepped = session.share(model, own)
        session.schedule(own, lambda _: 1.0)
        with pytest.raises(UsageError, match="servers step, and this object moves nothing"):
            own.step()
        session.unshare(model)
        model(DATA).sum().backward()
        own.step()  # of the plain loop
        found = [model.weight.item()]
        with pytest.raises(UsageError, match=r"batches: share a model \(session.share\)"):
            session.batches(DATA, 24)
        again = torch.optim.SGD(model.parameters(), lr=1.0, maximize=True)
        session.share(model, again)
        session.schedule(again, lambda _: 1.0)
        for batch in session.batches(DATA, 24):
            model(batch).sum().backward()
            with pytest.raises(UsageError, match="was unshared: share the model agai"):
                stepped.step()
            break
        return found

    assert run(script, trainers=1) == [[SUM]]


def test_what_cannot_be_unshared_is_refused_by_name(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        def refused(model: nn.Module, text: str) -> None:
            with pytest.raises(UsageError, match=text):
                session.unshare(model)

        refused(nn.Linear(1, 1), "got a Linear that is not shared, and nothing is")
        rows = nn.ModuleList([paceline.Embedding("users", 2), nn.Linear(2, 1)])
        session.share(rows, torch.optim.SGD(rows[1].parameters(), lr=0.1))
        refused(rows, "rows of 'users' are in one part with the model, and stay on the se")
        refused(rows[1], "got a Linear that is not shared$")
        model = Counters()
        optimizer = torch.optim.SGD([model.second], lr=0.1)
        stepped = session.share(model, optimizer)
        for batch in session.batches(DATA, 24):
            refused(model, "unshare: call it between two loops")
            model(batch).backward()
            stepped.step()
        session.unshare(model)
        refused(model, "got a Counters that is not shared$")

    run(script, trainers=1)


def test_rows_that_were_shared_first_stay_and_are_stepped_on(run: Run) -> None:
    def script(session: paceline.Session) -> tuple[float, float]:
        rows = paceline.Embedding(
            "users", 1, optimizer=paceline.SGD(lr=1.0), init=paceline.Zeros()
        )
        session.share(rows)
        model = nn.ModuleDict({"rows": rows, "bias": nn.Linear(1, 1, bias=False)})
        for _ in range(2):
            torch.nn.init.zeros_(model["bias"].weight)
            optimizer = torch.optim.SGD(model["bias"].parameters(), lr=1.0, maximize=True)
            stepped = session.share(model, optimizer)
            for batch in session.batches(DATA, 2, task_size=4):
                stepped.zero_grad()
                total = model["bias"](batch).sum() - rows(batch.long()).sum()
                total.backward()
                stepped.step()
            session.unshare(model)
        return rows(torch.tensor([7])).item(), model["bias"].weight.item()

    assert run(script, trainers=2, pace=parse_pace("sync:reduce=sum")) == [(2.0, SUM)] * 2


def test_who_still_trains_what_others_have_unshared_is_told_so(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        model = Counters()
        stepped = train(session, model)
        if session.trainer == "trainer-0":
            session.unshare(model)
            return
        for batch in session.batches(DATA, 2, epochs=1000):
            model(batch).backward()
            stepped.step()

    with pytest.raises(PacelineError, match=r"session\.unshare for the model of part 0"):
        run(script, trainers=2, pace=parse_pace("async"))
