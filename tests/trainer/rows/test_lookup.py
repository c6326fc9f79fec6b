"""Looking rows up is what torch's own embedding does, forward and back."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from paceline.trainer.rows.embedding import look_up


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 17))
def test_values_and_gradients_are_those_of_torch_to_the_bit(
    indices: list[int], dim: int
) -> None:
    draw = torch.Generator().manual_seed(len(indices))
    places = torch.tensor(indices, dtype=torch.int64).view(-1, 1)
    ours = torch.randn(6, dim, generator=draw).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    weights = torch.randn(len(indices), 1, dim, generator=draw)
    mine, expected = look_up(ours, places), functional.embedding(places, theirs)
    torch.testing.assert_close(mine, expected, rtol=0, atol=0)
    (mine * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=0)


def test_a_gradient_has_a_gradient() -> None:
    places = torch.tensor([0, 2, 2, 1])

    def penalty(look: object, rows: torch.Tensor) -> torch.Tensor:
        found = look_up(rows, places) if look is look_up else rows[places]
        [gradient] = torch.autograd.grad((found**3).sum(), rows, create_graph=True)
        return (gradient**2).sum()

    ours = torch.arange(6.0).view(3, 2).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    penalty(look_up, ours).backward()
    penalty(None, theirs).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
