"""Looking rows up is what torch's own embedding does, forward and back."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from paceline.trainer.rows.embedding import look_up
from paceline.trainer.rows.embedding_rows import Found


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 17))
def test_values_and_gradients_are_those_of_torch_to_the_bit(
    indices: list[int], dim: int
) -> None:
    draw = torch.Generator().manual_seed(len(indices))
    places = torch.tensor(indices, dtype=torch.int64).view(-1, 1)
    rows = torch.randn(6, dim, generator=draw)
    theirs = rows.clone().requires_grad_()
    weights = torch.randn(len(indices), 1, dim, generator=draw)
    gradients: list[torch.Tensor] = []
    mine = look_up(Found(rows, places, gradients.append))
    expected = functional.embedding(places, theirs)
    torch.testing.assert_close(mine, expected, rtol=0, atol=0)
    (mine * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(gradients, [theirs.grad], rtol=0, atol=0)


def test_each_backward_brings_its_own_gradient() -> None:
    gradients: list[torch.Tensor] = []
    found = look_up(Found(torch.ones(2, 3), torch.tensor([1, 1]), gradients.append))
    found.sum().backward(retain_graph=True)
    found.sum().backward()
    expected = torch.tensor([[0.0] * 3, [2.0] * 3])
    torch.testing.assert_close(gradients, [expected, expected])


def test_who_only_reads_is_told_of_no_gradient() -> None:
    found = look_up(Found(torch.ones(2, 3), torch.tensor([1, 1]), None))
    assert not found.requires_grad


def test_a_gradient_has_a_gradient() -> None:
    places = torch.tensor([0, 2, 2, 1])

    def penalise(found: torch.Tensor) -> None:
        loss = (found**3).sum()
        [gradient] = torch.autograd.grad(loss, found, create_graph=True)
        ((gradient**2).sum() + loss).backward()

    rows, gradients = torch.arange(6.0).view(3, 2), list[torch.Tensor]()
    theirs = rows.clone().requires_grad_()
    penalise(look_up(Found(rows, places, gradients.append)))
    penalise(theirs[places])
    torch.testing.assert_close(gradients, [theirs.grad])
