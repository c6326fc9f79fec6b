"""A trainer's gradients in a codec: what is left out comes later, and nothing twice."""

import warnings
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from paceline.config import Adagrad, Async, Pace, Sync, Uniform, Zeros, parse_pace
from paceline.messages.data import Push
from paceline.messages.shared import Block, OptimizerSpec, ParameterSpec, PartPlan, PartSpec
from paceline.params.codecs.codec import Float32s
from paceline.params.codecs.named import codec_of
from paceline.trainer.encoding.compression import GradientCoding
from paceline.trainer.encoding.tensor_bytes import byte_array
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.rows.embedding import Embedding
from paceline.trainer.session import Session
from paceline.trainer.share.optimizer import SharedOptimizer
from tests.trainer.fake_job import FakeJob

NUM = 10
HALF = Async(codec="top50%")


def plan_of(pace: Pace, dtype: str = "float32", num: int = NUM) -> PartPlan:
    """One parameter in one block."""
    spec = PartSpec(
        part=0,
        parameters=(ParameterSpec(("w",), (num,), dtype),),
        optimizer=OptimizerSpec("SGD", ({"lr": 1.0},)),
        tables=(),
        pace=pace,
    )
    return PartPlan(spec, (Block(7, 0, 0, num),), 8, 0, {7: "server-0"})


def send(coding: GradientCoding, plan: PartPlan, gradient: Float32s) -> Float32s:
    """What a server comes to know of a gradient."""
    coding.follow(plan)
    coded = coding.code_blocks({0: gradient.view(np.uint8)})
    coding.sent()
    coding.sent()  # its reply was lost
    codec = codec_of(plan)
    assert codec is not None
    found = np.empty_like(gradient)
    codec.decode(coded[7], found)
    return found


integers = st.lists(st.integers(-1000, 1000), min_size=NUM, max_size=NUM)


@given(steps=st.lists(integers, min_size=1, max_size=6))
def test_all_that_was_sent_and_what_is_left_out_are_all_gradients(
    steps: list[list[int]],
) -> None:
    coding, plan = GradientCoding(), plan_of(Async(codec="top20%"))
    gradients = [np.array(step, np.float32) for step in steps]
    sent = sum(send(coding, plan, gradient) for gradient in gradients)
    for _ in range(NUM):  # steps without a gradient bring out the rest, the greatest first
        sent = sent + send(coding, plan, np.zeros(NUM, np.float32))
    assert np.array_equal(sent, sum(gradients))


def test_what_int4_rounds_off_comes_with_the_next_gradients() -> None:
    coding, plan = GradientCoding(), plan_of(Async(codec="int4"))
    gradient = np.array([7, 0.4, 0.3, -0.2, 0, 0, 0, 0, 0, 1], np.float32)
    sent = sum(send(coding, plan, gradient) for _ in range(10))
    assert np.abs(sent - 10 * gradient).max() <= 0.51, "half a level, whatever came before"


def test_what_waits_grows_until_it_is_among_the_greatest() -> None:
    coding, plan = GradientCoding(), plan_of(Async(codec="top10%"))
    gradient = np.array([3, 2, 0, 0, 0, 0, 0, 0, 0, 0], np.float32)
    found = [int(np.flatnonzero(send(coding, plan, gradient))[0]) for _ in range(5)]
    assert found == [0, 1, 0, 1, 0]
    assert gradient.tolist() == [3, 2, *[0] * 8], "the user's gradient was changed"


def test_what_was_left_out_is_forgotten_with_its_future() -> None:
    coding, plan = GradientCoding(), plan_of(Async(codec="top10%"))
    gradient = np.arange(NUM, dtype=np.float32)
    first = send(coding, plan, gradient)
    coding.forget()
    assert np.array_equal(send(coding, plan, gradient), first)
    coding.follow(plan_of(Async(codec="top20%")))
    assert np.array_equal(send(coding, plan, gradient), first), "another codec"


def test_what_was_left_out_stays_while_the_codec_does_whatever_the_pace() -> None:
    coding, plan = GradientCoding(), plan_of(Async(codec="top10%"))
    send(coding, plan, np.array([9, 5, *[0] * 8], np.float32))
    again = plan_of(Sync(codec="top10%"))
    found = send(coding, again, np.zeros(NUM, np.float32))
    assert found.tolist() == [0, 5, *[0] * 8]


def test_a_push_that_is_never_sent_leaves_what_waits_as_it_is() -> None:
    coding, plan = GradientCoding(), plan_of(Async(codec="top10%"))
    send(coding, plan, np.array([9, 5, *[0] * 8], np.float32))
    coding.code_blocks({0: np.full(NUM, 100, np.float32).view(np.uint8)})
    found = send(coding, plan, np.zeros(NUM, np.float32))
    assert found.tolist() == [0, 5, *[0] * 8]


def test_two_that_have_no_finite_sum_are_not_added() -> None:
    coding, plan = GradientCoding(), plan_of(Async(codec="top10%"))
    most = np.finfo(np.float32).max
    gradient = np.array([most, *[most / 2] * 9], np.float32)
    for _ in range(4):
        assert np.isfinite(send(coding, plan, gradient)).all()


def test_only_float32_is_coded() -> None:
    coding = GradientCoding()
    coding.follow(plan_of(Async(codec="int8"), "float64"))
    gradient = torch.ones(NUM, dtype=torch.float64)
    assert coding.code_blocks({0: byte_array(gradient)}) == {}
    assert coding.code_rows(gradient.view(5, 2)).nbytes == 8 * NUM
    assert not coding.codes(0)


@pytest.mark.parametrize("codec", [None, "int8", "int4", "top1%"])
def test_whatever_is_finite_fits_a_codec_that_scales_or_chooses(codec: str | None) -> None:
    coding = GradientCoding()
    coding.follow(plan_of(Sync(codec=codec)))
    assert coding.fits([torch.tensor([3.4e38])])


def test_what_would_round_to_infinity_does_not_fit() -> None:
    coding = GradientCoding()
    coding.follow(plan_of(Sync(codec="fp16")))
    whole = torch.zeros(3, 2)
    whole[1, 1] = -70000.0
    assert not coding.fits([torch.ones(2), whole])
    assert not coding.fits([whole.to_sparse(1)])
    assert not coding.fits([torch.tensor([65520.0])])
    assert coding.fits([torch.tensor([65519.0, -65504.0]), torch.empty(0)])
    assert coding.fits([whole.double()]), "float64 travels as it is"


# ---------------------------------------------------------------- whole sessions

DATA = torch.arange(1.0, 13.0).reshape(12, 1)


def share_wide(session: Session) -> tuple[nn.Linear, SharedOptimizer]:
    """Eight weights, w[i] the sum of all x times i that arrived: SGD with lr -1."""
    model = nn.Linear(1, 8, bias=False)
    model.weight.data.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, maximize=True)
    return model, session.share(model, optimizer)


WEIGHTS = torch.arange(1.0, 9.0)


def loop(
    session: Session, model: nn.Linear, optimizer: SharedOptimizer, *scales: float
) -> None:
    """A step a batch; the last of ``scales`` is that of all batches left."""
    left = list(scales or [1.0])
    for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
        scale = left.pop(0) if len(left) > 1 else left[0]
        (scale * model(batch) * WEIGHTS).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def bytes_by_window(job: FakeJob) -> dict[tuple[str, int], set[bytes]]:
    found: dict[tuple[str, int], set[bytes]] = {}
    for message, buffers in job.pushed:
        key = str(message.window), message.blocks[0]
        found.setdefault(key, set()).add(b"".join(buffers))
    return found


@pytest.mark.parametrize("pace", ["async", "sync", "async:pull=2,push=1"])
@pytest.mark.parametrize("codec", ["fp16", "bf16", "int8", "int4", "top50%"])
def test_a_repeated_push_carries_the_very_same_bytes(codec: str, pace: str) -> None:
    name = f"{pace}{',' if ':' in pace else ':'}codec={codec}"
    job = FakeJob(servers=2, pace=parse_pace(name))
    asked: Counter[tuple[str, int]] = Counter()

    def lose_every_first(role: str, message: object) -> bool:
        if isinstance(message, Push):
            asked[role, message.number] += 1
            return asked[role, message.number] == 1
        return False

    job.lose = lose_every_first
    with job.session() as session:
        model, optimizer = share_wide(session)
        loop(session, model, optimizer)
    assert len(job.pushed) >= 2 * 2 * 6
    found = bytes_by_window(job)
    assert len(found) == 2 * 6
    assert {len(variants) for variants in found.values()} == {1}


def test_what_is_left_out_at_the_end_of_a_loop_comes_with_the_next() -> None:
    job = FakeJob(servers=1, pace=HALF)
    with job.session() as session:
        model, optimizer = share_wide(session)
        loop(session, model, optimizer)
        after_one = model.weight.detach().clone()
        loop(session, model, optimizer, 0.0)
        after_two = model.weight.detach().clone()
    whole = DATA.sum() * WEIGHTS
    assert not torch.equal(after_one.flatten(), whole), "nothing was left out"
    assert torch.equal(after_two.flatten(), whole), "gradients of 0 bring out the rest"


def test_a_return_to_a_cut_forgets_what_was_left_out() -> None:
    job = FakeJob(servers=1, pace=HALF)
    with job.session() as session, warnings.catch_warnings():
        warnings.simplefilter("ignore", StepWarning)
        model, optimizer = share_wide(session)
        left = False
        for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
            if not left and len(job.pushed) == 3:
                left = True
                job.leave_timeline()
            (model(batch) * WEIGHTS).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert left
    by_window: dict[str, list[bytes]] = {}
    for message, buffers in job.pushed:
        if message.timeline == 1:
            by_window.setdefault(str(message.window), []).append(b"".join(buffers))
    fresh = FakeJob(servers=1, pace=HALF)
    with fresh.session() as session:
        model, optimizer = share_wide(session)
        loop(session, model, optimizer)
    expected = {str(m.window): [b"".join(b)] for m, b in fresh.pushed}
    assert by_window == expected, "the run after the return is one from the beginning"


def test_a_change_of_pace_keeps_what_was_left_out() -> None:
    job = FakeJob(servers=1, pace=HALF)
    with job.session() as session:
        model, optimizer = share_wide(session)
        loop(session, model, optimizer)
        job.timeline += 1  # nobody returns
        loop(session, model, optimizer, 0.0)
        weight = model.weight.detach().clone()
    whole = DATA.sum() * WEIGHTS
    assert torch.equal(weight.flatten(), whole), "gradients of 0 bring out the rest"


def test_a_refused_push_leaves_what_waits_as_it_is() -> None:
    job = FakeJob(servers=1, pace=HALF)
    with job.session() as session:
        model, optimizer = share_wide(session)
        with pytest.warns(StepWarning, match="not finite: a push without them"):
            loop(session, model, optimizer, 1.0, float("nan"), 0.0)
        assert session.refused_nonfinite == 1
        assert torch.equal(model.weight.detach().flatten(), DATA[:2].sum() * WEIGHTS)


def test_a_gradient_beyond_fp16_is_refused_whole_and_bf16_takes_it() -> None:
    with FakeJob(servers=1, pace=Async(codec="fp16")).session() as session:
        model, optimizer = share_wide(session)
        with pytest.warns(StepWarning, match=r"beyond what fp16 can carry \(65520\)"):
            loop(session, model, optimizer, 1e4)
        refused = session.refused_nonfinite
        assert refused >= 1
        assert torch.isfinite(model.weight).all()
    with FakeJob(servers=1, pace=Async(codec="bf16")).session() as session:
        model, optimizer = share_wide(session)
        loop(session, model, optimizer, 1e4)
        assert session.refused_nonfinite == 0
        whole = 1e4 * DATA.sum() * WEIGHTS
        distance = (model.weight.detach().flatten() - whole).abs() / whole
        assert distance.max() < 2**-7


def test_one_part_beyond_fp16_refuses_the_step_of_all_parts() -> None:
    with FakeJob(servers=1, pace=Sync(codec="fp16")).session() as session:
        models = [share_wide(session), share_wide(session)]
        before = [model.weight.detach().clone() for model, _ in models]

        def step_both() -> None:
            for batch in session.batches(DATA, 12, shuffle=False, task_size=12):
                loss = models[0][0](batch) + 1e5 * models[1][0](batch)
                loss.sum().backward()
                for _, optimizer in models:
                    optimizer.step()

        with pytest.warns(StepWarning, match="beyond what fp16 can carry"):
            step_both()
        assert torch.equal(models[1][0].weight, before[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_values_come_rounded_and_servers_keep_them_whole(dtype: torch.dtype) -> None:
    job = FakeJob(servers=2, pace=Sync(codec="bf16"))
    torch.manual_seed(0)
    first = torch.randn(8, 3, dtype=dtype)
    with job.session() as session:
        model = nn.Linear(3, 8, bias=False, dtype=dtype)
        model.weight.data.copy_(first)
        session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
        rounded = first.bfloat16().to(dtype) if dtype is torch.float32 else first
        assert torch.equal(model.weight, rounded)
    kept = [
        shard.blocks[slot].values.flatten()
        for shard in job.shards.values()
        for slot in shard.blocks
    ]
    assert torch.equal(torch.cat(kept).sort().values, first.flatten().sort().values)


class Both(nn.Module):
    """A table and a weight of torch's whose gradients are sparse."""

    def __init__(self) -> None:
        super().__init__()
        self.user = Embedding("user", 4, optimizer=Adagrad(lr=0.05), init=Uniform(0.5))
        self.item = nn.Embedding(9, 4, sparse=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return (self.user(ids) * self.item(ids)).sum()


@pytest.mark.parametrize("codec", ["fp16", "bf16", "int8", "int4", "top1%"])
def test_rows_learn_nearly_as_without_a_codec(codec: str) -> None:
    ids = torch.arange(12) % 9

    def rows(pace: Pace) -> torch.Tensor:
        torch.manual_seed(1)
        with FakeJob(servers=2, pace=pace).session() as session:
            model = Both()
            dense = torch.optim.SGD(model.item.parameters(), lr=0.5)
            optimizer = session.share(model, dense)
            for batch in session.batches(ids, 3, shuffle=False, task_size=6, epochs=2):
                model(batch).backward()
                optimizer.step()
                optimizer.zero_grad()
            model.eval()
            return torch.cat([model.user(torch.arange(9)), model.item.weight]).detach()

    expected, found = rows(Sync()), rows(Sync(codec=codec))
    error = (found - expected).abs().max().item()
    is_as_it_is = codec in {"int4", "top1%"}
    assert error <= (0 if is_as_it_is else 0.02)
    assert (error == 0) == is_as_it_is


def test_rows_that_are_zero_stay_zero() -> None:
    with FakeJob(servers=1, pace=Async(codec="fp16")).session() as session:
        table = session.embedding("user", 4, init=Zeros())
        table.eval()
        assert not table(torch.arange(5)).any()
