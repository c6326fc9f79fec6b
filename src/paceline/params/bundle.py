"""Blocks of a server that step together: in one call, where torch has a kernel for it.

A server of many small blocks would pay for each what a step costs beside its numbers. To
the bit it is what each block's own step does.

`torch.optim.Adam.step` and its like call a fused kernel, but look at every option anew
first: 20 to 50 microseconds, of which the kernel needs two where the values are few.

Source: `_fused_sgd`, `_fused_adam` and `_fused_adagrad` of `torch.optim`, torch 2.10.

Pure: no lock of its own; one call at a time per bundle.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, final

import torch

from paceline.messages.shared import Hyper
from paceline.params.dense import OptimizeBlock

# A block as large as this is worth a thread of its own.
MOST_BYTES: Final = 1 << 19

Tensors = list[torch.Tensor]
Options = Mapping[str, Any]  # of a parameter group
_Step = Callable[[Tensors, Tensors, Sequence[Tensors], Options], None]


class FusedRule(NamedTuple):
    """A kernel, and the state that it changes, by torch's names; some need none."""

    state: Callable[[Options], tuple[str, ...]]
    step: _Step  # (values, gradients, their states name by name, options)


def rule_of(optimizer: torch.optim.Optimizer) -> FusedRule | None:
    """By what an optimizer's step is one call; None if it does more than its kernel."""
    [options] = optimizer.param_groups
    rule = _RULES.get(type(optimizer))
    plain = rule is not None and options.get("fused") and not options.get("amsgrad")
    return rule if plain and not isinstance(options["lr"], torch.Tensor) else None


class _Prepared(NamedTuple):
    """What one call needs beside the gradients."""

    slots: tuple[int, ...]
    rule: FusedRule
    values: Tensors
    states: list[Tensors]  # name by name
    options: Options


@final
class Bundle:
    """Blocks of one parameter group and dtype.

    Attributes:
        blocks: ``{slot: block}``, ascending.
        lead: the first of the slots; by it the bundle is known.
        group: the parameter group.
    """

    def __init__(self, blocks: Mapping[int, OptimizeBlock], group: int) -> None:
        """Hold at least one block; a bundle stays as it is."""
        self.blocks, self.group = dict(blocks), group
        self.lead = next(iter(self.blocks))
        self._hyper: Hyper = {}
        # Of the slots that have stepped last, if one call steps them all.
        self._prepared: _Prepared | None = None

    def apply(self, gradients: Mapping[int, torch.Tensor], hyper: Hyper) -> None:
        """Take one step of each block that has a gradient; see `OptimizeBlock.apply`."""
        prepared, slots = self._prepared, tuple(gradients)
        if prepared is None or prepared.slots != slots or self._hyper != hyper:
            self._hyper = hyper
            prepared = self._prepared = self._prepare(slots, hyper)
        if prepared is None:
            for slot, gradient in gradients.items():
                self.blocks[slot].apply(gradient, hyper)
            return
        _, rule, values, states, options = prepared
        rule.step(values, list(gradients.values()), states, options)

    def forget(self) -> None:
        """The state of a block is another object from now on."""
        self._prepared = None

    def _prepare(self, slots: tuple[int, ...], hyper: Hyper) -> _Prepared | None:
        """None until the optimizers have made all, and where no kernel does everything."""
        blocks = [self.blocks[slot] for slot in slots]
        for block in blocks:
            block.set_hyper(hyper)
        optimizer = blocks[0].optimizer
        rule = rule_of(optimizer)
        if rule is None:
            return None
        [options] = optimizer.param_groups
        names = rule.state(options)
        found = [block.live_state() for block in blocks]
        if not all(name in state for state in found for name in names):
            return None
        states = [[state[name] for state in found] for name in names]
        return _Prepared(slots, rule, [block.values for block in blocks], states, options)


def bundled(
    blocks: Mapping[int, OptimizeBlock], groups: Mapping[int, int], most_bytes: int
) -> Iterator[Bundle]:
    """Put blocks that may step together into bundles, ascending.

    ``groups``: {slot: its parameter group}. Rows of a block step by themselves.
    """
    found: dict[tuple[int, torch.dtype], dict[int, OptimizeBlock]] = {}
    for slot, block in sorted(blocks.items()):
        values, kind = block.values, (groups[slot], block.values.dtype)
        held = found.get(kind, {})
        num_bytes = values.nbytes + sum(one.values.nbytes for one in held.values())
        if held and (num_bytes > most_bytes or values.ndim > 1):
            yield Bundle(found.pop(kind), groups[slot])
        found.setdefault(kind, {})[slot] = block
        if values.ndim > 1:
            yield Bundle(found.pop(kind), groups[slot])
    for (group, _), held in found.items():
        yield Bundle(held, group)


def _momentum(options: Options) -> tuple[str, ...]:
    return ("momentum_buffer",) if options["momentum"] else ()


def _step_sgd(
    values: Tensors, gradients: Tensors, states: Sequence[Tensors], options: Options
) -> None:
    torch._fused_sgd_(
        values,
        gradients,
        states[0] if states else [],
        weight_decay=options["weight_decay"],
        momentum=options["momentum"],
        lr=options["lr"],
        dampening=options["dampening"],
        nesterov=options["nesterov"],
        maximize=options["maximize"],
        is_first_step=False,
    )


def _step_adam(
    values: Tensors, gradients: Tensors, states: Sequence[Tensors], options: Options
) -> None:
    steps, averages, squares = states
    beta1, beta2 = options["betas"]
    torch._foreach_add_(steps, 1)
    is_decoupled = options["decoupled_weight_decay"]
    kernel: Any = torch._fused_adamw_ if is_decoupled else torch._fused_adam_
    kernel(
        values,
        gradients,
        averages,
        squares,
        [],
        steps,
        amsgrad=False,
        lr=options["lr"],
        beta1=beta1,
        beta2=beta2,
        weight_decay=options["weight_decay"],
        eps=options["eps"],
        maximize=options["maximize"],
    )


def _step_adagrad(
    values: Tensors, gradients: Tensors, states: Sequence[Tensors], options: Options
) -> None:
    steps, sums = states
    torch._foreach_add_(steps, 1)
    torch._fused_adagrad_(
        values,
        gradients,
        sums,
        steps,
        lr=options["lr"],
        lr_decay=options["lr_decay"],
        weight_decay=options["weight_decay"],
        eps=options["eps"],
        maximize=options["maximize"],
    )


_ADAM = FusedRule(lambda _: ("step", "exp_avg", "exp_avg_sq"), _step_adam)
_RULES: dict[type[torch.optim.Optimizer], FusedRule] = {
    torch.optim.SGD: FusedRule(_momentum, _step_sgd),
    torch.optim.Adam: _ADAM,
    torch.optim.AdamW: _ADAM,
    torch.optim.Adagrad: FusedRule(lambda _: ("step", "sum"), _step_adagrad),
}
