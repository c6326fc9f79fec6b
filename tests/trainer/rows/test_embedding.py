import copy
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import nn

from paceline.config import Uniform, Zeros
from paceline.errors import UsageError
from paceline.messages.data import PullRows
from paceline.trainer.rows.embedding import Embedding, Mode
from paceline.trainer.rows.routing import merge
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob

IDS = torch.tensor([[7, -3, 7], [2**40, 9, 7]])


def gradient_by_id(module: Embedding, session: Session) -> dict[int, torch.Tensor]:
    """What a step would push for a table, by id."""
    table = module._table
    assert table is not None
    plan = session._seat.plan(table.part)
    recorded = table.take()
    if not recorded:
        return {}
    merged = merge(table.spec.name, plan, recorded)
    return dict(zip(merged.route.ids.tolist(), merged.gradient, strict=True))


def as_plain(module: Embedding, ids: torch.Tensor) -> tuple[nn.Embedding, torch.Tensor]:
    """A torch embedding with the same rows, and ids that index it."""
    distinct, index = torch.unique(ids, return_inverse=True)
    module.eval()
    mode, module.mode = module.mode, None
    rows = module(distinct)
    module.mode = mode
    module.train()
    return nn.Embedding.from_pretrained(rows, freeze=False), index


@pytest.mark.parametrize("mode", [None, "sum", "mean"])
def test_values_and_gradients_equal_torch(session: Session, mode: Mode | None) -> None:
    module = session.embedding("user", 4, mode=mode)
    plain, index = as_plain(module, IDS)
    out = module(IDS)
    expected = plain(index)
    if mode is not None:
        expected = getattr(expected, mode)(1)
    assert torch.allclose(out, expected, rtol=0, atol=1e-7)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    (out * weight).sum().backward()
    (expected * weight).sum().backward()
    found = gradient_by_id(module, session)
    for row, number in enumerate(torch.unique(IDS).tolist()):
        assert torch.allclose(found.pop(number), plain.weight.grad[row], atol=1e-6)
    assert not found


def test_two_lookups_of_one_table_add_up(session: Session) -> None:
    module = session.embedding("user", 2)
    (module(torch.tensor([1, 2])).sum() + 2 * module(torch.tensor([2, 3])).sum()).backward()
    found = gradient_by_id(module, session)
    assert {i: g.tolist() for i, g in found.items()} == {
        1: [1, 1],
        2: [3, 3],
        3: [2, 2],
    }


def test_two_backwards_through_one_lookup_add_up(session: Session) -> None:
    module = session.embedding("user", 1)
    out = module(torch.tensor([5])).sum()
    out.backward(retain_graph=True)
    out.backward()
    assert gradient_by_id(module, session)[5].item() == 2


def test_forward_without_backward_leaves_nothing_behind(session: Session) -> None:
    module = session.embedding("user", 2)
    module(IDS)
    assert gradient_by_id(module, session) == {}


def test_a_gradient_that_was_taken_leaves_no_memory_behind(session: Session) -> None:
    module = session.embedding("user", 2)
    module(torch.tensor([1])).sum().backward()
    assert module._table is not None
    gradient = weakref.ref(module._table._recorded[0].shown)
    assert len(module._table.take()) == 1
    assert gradient() is None


def test_eval_reads_the_initial_value_and_makes_no_row(
    job: FakeJob, session: Session
) -> None:
    module = session.embedding("user", 3, init=Uniform(0.5)).eval()
    first = module(IDS)
    assert not first.requires_grad
    assert not any(message.create for message in job.of(PullRows))
    module.train()
    assert torch.equal(module(IDS), first)
    assert job.of(PullRows)[-1].create


def test_no_grad_records_nothing(session: Session) -> None:
    module = session.embedding("user", 3)
    with torch.no_grad():
        assert not module(IDS).requires_grad


def test_rows_are_asked_once_of_every_server_that_has_any(
    job: FakeJob, session: Session
) -> None:
    module = session.embedding("user", 3)
    module(torch.arange(100).repeat(3))
    asked = [(role, m) for role, m in job.sent if isinstance(m, PullRows)]
    assert sorted(role for role, _ in asked) == ["server-0", "server-1"]
    assert sum(sum(m.rows[0].counts) for _, m in asked) == 100


@pytest.mark.parametrize(
    ("shape", "mode"),
    [((0,), None), ((3, 0), None), ((0, 4), None), ((3, 0), "sum"), ((0, 4), "mean")],
)
def test_no_ids_give_no_rows_and_a_gradient(
    session: Session, shape: tuple[int, ...], mode: Mode | None
) -> None:
    module = session.embedding("user", 3, mode=mode)
    out = module(torch.empty(shape, dtype=torch.int64))
    assert out.shape == ((shape[0], 3) if mode else (*shape, 3))
    assert not out.any()
    out.sum().backward()
    assert gradient_by_id(module, session) == {}


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32])
def test_ids_of_any_whole_dtype_are_the_same_ids(
    session: Session, dtype: torch.dtype
) -> None:
    module = session.embedding("user", 2)
    ids = torch.tensor([[7, 3], [3, 0]])
    assert torch.equal(module(ids.to(dtype)), module(ids))


@pytest.mark.parametrize("ids", [[-1, -(2**63), 2**63 - 1], [-1, -1, -1], []])
@pytest.mark.parametrize("mode", [None, "sum", "mean"])
@pytest.mark.parametrize("padding", [-1, 7])
def test_a_padding_id_is_that_of_torch(
    session: Session, ids: list[int], mode: Mode | None, padding: int
) -> None:
    module = session.embedding("user", 4, mode=mode, padding_idx=padding)
    batch = torch.tensor([[*ids, 7], [7, *ids]])
    plain, index = as_plain(module, batch)
    place = torch.unique(batch).tolist().index(padding) if padding in batch else None
    arguments = {} if mode is None else {"mode": mode}
    function = nn.functional.embedding if mode is None else nn.functional.embedding_bag
    expected = function(index, plain.weight, padding_idx=place, **arguments)
    out = module(batch)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-7)
    out.square().sum().backward()
    expected.square().sum().backward()
    found = gradient_by_id(module, session)
    assert padding not in found
    for row, number in enumerate(torch.unique(batch).tolist()):
        if number != padding:
            torch.testing.assert_close(found[number], plain.weight.grad[row])


def test_a_padding_id_makes_no_row(job: FakeJob, session: Session) -> None:
    module = session.embedding("user", 4, padding_idx=0)
    assert not module(torch.zeros(3, dtype=torch.int64)).any()
    assert not job.of(PullRows)


class Scored(nn.Module):
    def __init__(self, rows: Embedding) -> None:
        super().__init__()
        self.rows, self.score = rows, nn.Linear(3, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found = self.rows(ids)
        return torch.tanh(self.score(found))


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch's own look
def test_a_compiled_model_breaks_its_graph_at_the_embedding(session: Session) -> None:
    model, graphs = Scored(session.embedding("user", 3)), []

    def backend(graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(model, backend=backend)
    out = compiled(IDS)
    assert torch.equal(out, model(IDS))
    out.sum().backward()
    assert set(gradient_by_id(model.rows, session)) == set(IDS.flatten().tolist())
    code = "".join(graph.code for graph in graphs)
    assert "linear" in code
    assert "tanh" in code, "what surrounds the embedding is compiled"


def test_one_name_is_one_table(session: Session) -> None:
    model = nn.ModuleList([Embedding("user", 2), Embedding("user", 2)])
    session.share(model)
    assert torch.equal(model[0](IDS), model[1](IDS))
    assert model[0]._table is model[1]._table


def test_one_name_with_two_meanings_is_refused(session: Session) -> None:
    model = nn.ModuleList([Embedding("user", 2), Embedding("user", 3)])
    with pytest.raises(UsageError, match=r"'user' is .* in one place"):
        session.share(model)


def test_a_copied_module_reads_the_same_table(session: Session) -> None:
    module = session.embedding("user", 2)
    assert torch.equal(copy.deepcopy(module)(IDS), module(IDS))


def test_it_has_no_parameters_and_an_empty_state(session: Session) -> None:
    module = session.embedding("user", 2)
    assert not list(module.parameters())
    assert not module.state_dict()


def test_unshared_use_says_what_to_do() -> None:
    with pytest.raises(UsageError, match="'user' is not shared yet: give the model"):
        Embedding("user", 2)(IDS)


@pytest.mark.parametrize(
    ("ids", "mode", "text"),
    [
        (torch.ones(2), None, r"whole numbers, got torch.float32: call .long\(\)"),
        (torch.ones(2, dtype=torch.bool), None, "got torch.bool"),
        (torch.ones(2, dtype=torch.uint64), None, r"call .view\(torch.int64\)"),
        ([1, 2], None, "expected a tensor of ids"),
        (torch.tensor([1]), "sum", r"ids of shape \(batch, n\)"),
    ],
)
def test_what_are_no_ids_is_refused(
    session: Session, ids: object, mode: Mode | None, text: str
) -> None:
    module = session.embedding("user", 2, mode=mode)
    with pytest.raises(UsageError, match=text):
        module(ids)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"name": ""}, "name must be a word"),
        ({"dim": 0}, "dim must be at least 1"),
        ({"mode": "max"}, "mode is None, 'sum' or 'mean'"),
        ({"optimizer": torch.optim.Adam}, "a row optimizer, such as paceline.Adam"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        Embedding(**{"name": "user", "dim": 2, "init": Zeros(), **arguments})  # type: ignore[arg-type]  # on purpose
