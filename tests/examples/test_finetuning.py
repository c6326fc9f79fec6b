"""Fine-tuning: what adapters change at first, and what is left to train."""

import pytest
import torch
from torch import Tensor
from torch.nn import Module

from tests.examples.loading import load


@pytest.fixture
def model() -> Module:
    torch.manual_seed(0)
    return load("finetuning", "gpt")[0].GPT()


@pytest.fixture
def text() -> Tensor:
    return torch.randint(128, (3, 48), generator=torch.Generator().manual_seed(1))


def test_adapters_change_nothing_before_they_have_learned(
    model: Module, text: Tensor
) -> None:
    before = model(text)
    load("finetuning", "gpt")[0].adapt(model, width=4)
    assert torch.equal(model(text), before)


def test_adapters_alone_are_left_to_train(model: Module, text: Tensor) -> None:
    learned = load("finetuning", "gpt")[0].adapt(model, width=4)
    names = {n for n, p in model.named_parameters() if p.requires_grad}
    assert len(learned) == len(names) == 16
    assert all(n.endswith(("down.weight", "up.weight")) for n in names)
    model(text).sum().backward()
    assert all(p.grad is not None for p in learned)


def test_a_byte_is_predicted_from_those_before_it(model: Module, text: Tensor) -> None:
    other = text.clone()
    other[:, 30:] = 7
    assert torch.equal(model(other)[:, :30], model(text)[:, :30])
    assert not torch.equal(model(other)[:, 30:], model(text)[:, 30:])
