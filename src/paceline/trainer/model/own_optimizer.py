"""The user's own optimizer object, once it is shared.

::

    step                                    refused: servers step, by what share returned
    zero_grad, state_dict, load_state_dict,
    add_param_group                         those of the shared optimizer
    state                                   refused while it is the servers'; with steps
                                            of the trainer's own, one for both objects
    hooks, param_groups                     one for both objects

A trainer that takes steps itself (local paces, allreduce) does so by `step_own`: without
hooks, since those have run with the step of the shared optimizer.

What of its parameter groups may change once the model is shared::

    lr, betas, weight_decay, ...    may: their values travel with every push
    momentum, amsgrad, centered     may, unless the state of it would not be there, or
                                    weights that change by rows would change as a whole
    the list, a group's params      may not: a part never changes

Waits for nothing. The thread of the user's loop calls.
"""

import numbers
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from operator import is_
from typing import Any, Final, NoReturn, final

import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_post_hooks as _post_hooks_of_all
from torch.optim.optimizer import _global_optimizer_pre_hooks as _pre_hooks_of_all

from paceline.errors import UsageError
from paceline.params.sparse import why_not_by_rows
from paceline.torch_compiler import step_of

_HOOKS: Final = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)
_AS_SHARED: Final = (
    "zero_grad",
    "state_dict",
    "load_state_dict",
    "load_tracked",
    "add_param_group",
)
# How the trainer's own optimizer would run, not what it computes.
_EXECUTION: Final = frozenset({"foreach", "fused", "capturable", "differentiable"})
# What torch makes state for at the first step, and never later.
_FROM_THE_START: Final = {
    "Adam": ("amsgrad",),
    "AdamW": ("amsgrad",),
    "RMSprop": ("momentum", "centered"),
}
_REST: Final = "what is shared cannot grow; share the rest with an optimizer of its own"
_NOT_KEPT: Final = (
    "step() of the optimizer that was given to session.share: the servers step, and this "
    "object moves nothing; keep what share returned: "
    "optimizer = session.share(model, optimizer)"
)
_ELSEWHERE: Final = (
    "optimizer.state: the state of a shared optimizer lies on the servers (with local "
    "steps: in the optimizer that was given to session.share); it is in the job's "
    "checkpoints, and none of it is here, neither to be read nor to be changed. To begin "
    "with another: session.unshare(model) between two loops, and share it with a new "
    "optimizer"
)


@final
class StateElsewhere(defaultdict[Any, Any]):
    """The ``state`` of an optimizer that others step: to read or change it is refused.

    What is in it goes along where torch looks at all of it (`state_dict`).
    """

    is_here = False

    def __getitem__(self, key: object) -> Any:  # noqa: ANN401  (torch's own state)
        """Refused; unless steps are taken here by now.

        Raises:
            UsageError: the state is elsewhere.
        """
        if not self.is_here:
            raise UsageError(_ELSEWHERE)
        return super().__getitem__(key)

    def _refuse(self, *_: object, **__: object) -> Any:  # noqa: ANN401  (as above)
        raise UsageError(_ELSEWHERE)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) if self.is_here else self._refuse()

    def get(self, key: object, default: object = None) -> Any:  # noqa: ANN401  (as above)
        """As reading it."""
        return super().get(key, default) if self.is_here else self[key]

    def __setitem__(self, key: object, value: object) -> None:
        if not self.is_here:
            self._refuse()
        super().__setitem__(key, value)

    __delitem__ = pop = popitem = clear = update = setdefault = __ior__ = _refuse


@final
class _Refusal:
    """The step hook that stands before all others of the user's own object."""

    def __init__(self, own: torch.optim.Optimizer) -> None:
        self.own = own
        self.is_stepping = False  # within `step_own`

    def __call__(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """Called before a step of either object, or of the class."""
        if optimizer is self.own and not self.is_stepping:
            raise UsageError(_NOT_KEPT)


# Kinds of hooks of the other object, which no step calls.
_FOR_THE_OTHER: Final = frozenset({_Refusal})


def is_kept(own: torch.optim.Optimizer) -> bool:
    """Whether the object is another's name, by `keep_own`, and was not released since."""
    return _Refusal in map(type, own._optimizer_step_pre_hooks.values())


def has_step_hooks(shared: torch.optim.Optimizer, num_ours: int = 0) -> bool:
    """Whether somebody wants to be called before or after its steps.

    ``num_ours`` of torch's hooks before steps of all optimizers are not for shared ones.
    """
    before = {*map(type, shared._optimizer_step_pre_hooks.values())}
    return (
        not before <= _FOR_THE_OTHER
        or bool(shared._optimizer_step_post_hooks)
        or len(_pre_hooks_of_all) > num_ours
        or bool(_post_hooks_of_all)
    )


def keep_own(
    own: torch.optim.Optimizer, shared: torch.optim.Optimizer, *, steps_here: bool
) -> None:
    """From now on the user's object is but another name of the shared one's groups.

    ``steps_here``: the trainer takes steps by ``own``, whose state is its own then.
    """
    release(own)
    for name in _HOOKS:
        setattr(shared, name, getattr(own, name))
    shared.param_groups = own.param_groups
    handle = own.register_step_pre_hook(_Refusal(own))
    hooks = own._optimizer_step_pre_hooks
    assert isinstance(hooks, OrderedDict), "as torch makes it"
    hooks.move_to_end(handle.id, last=False)
    for name in _AS_SHARED:
        setattr(own, name, getattr(shared, name))
    if steps_here:
        shared.state = own.state
    else:
        own.state = StateElsewhere(dict, own.state)


def check_state(
    shared: torch.optim.Optimizer, own: torch.optim.Optimizer | None, *, steps_here: bool
) -> None:
    """Refuse a ``state`` that was assigned anew; that of a released object is its own.

    Raises:
        UsageError: one was, of either object.
    """
    if own is not None and not is_kept(own):
        return
    if steps_here and own is not None:
        is_theirs = shared.state is own.state
    else:
        is_theirs = isinstance(shared.state, StateElsewhere) and (
            own is None or isinstance(own.state, StateElsewhere)
        )
    if not is_theirs:
        raise UsageError(f"step() after optimizer.state = ...: {_ELSEWHERE}")


def release(own: torch.optim.Optimizer) -> None:
    """The object is the user's again, if it was shared."""
    hooks = own._optimizer_step_pre_hooks
    for number in [n for n, hook in hooks.items() if isinstance(hook, _Refusal)]:
        del hooks[number]
        for name in _AS_SHARED:
            vars(own).pop(name, None)
    if isinstance(own.state, StateElsewhere):
        own.state = defaultdict(dict, own.state)


def why_not_kept(own: torch.optim.Optimizer) -> str | None:
    """Why servers could not step as this object does; None if they can."""
    step = vars(own).get("step")
    if step is not None and not hasattr(step, "_wrapped_by_lr_sched"):
        return (
            "its step was replaced (optimizer.step = ...), and what replaces it would "
            "never run: use register_step_pre_hook and register_step_post_hook, or replace "
            "the step of what share returns"
        )
    if any(group.get("differentiable") for group in own.param_groups):
        return (
            "differentiable=True asks for a graph through the step, and a step on servers "
            "has none: leave it out"
        )
    return None


def step_own(own: torch.optim.Optimizer) -> None:
    """Let the object take a step here, with the gradients that are here; no hook runs."""
    if isinstance(own.state, StateElsewhere):
        own.state.is_here = True
    hooks = own._optimizer_step_pre_hooks.values()
    refusals = [hook for hook in hooks if type(hook) is _Refusal]
    step = step_of(type(own))
    for refusal in refusals:
        refusal.is_stepping = True  # an optimizer may step by its parent class
    try:
        step(own)
    finally:
        for refusal in refusals:
            refusal.is_stepping = False


def own_state(own: torch.optim.Optimizer) -> dict[str, Any]:
    """Its own ``state_dict``, state and all."""
    return type(own).state_dict(own)


def load_own_state(own: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Its own ``load_state_dict``; what others hold as well stays the same objects."""
    groups, held = own.param_groups, own.state
    type(own).load_state_dict(own, state)
    found = own.state
    dict.clear(held)
    dict.update(held, found)
    own.state = held
    for group, loaded in zip(groups, own.param_groups, strict=True):
        group.update({name: v for name, v in loaded.items() if name != "params"})
    own.param_groups = groups


def refuse_copy(*_: object) -> NoReturn:
    """Refuse to copy or pickle a shared optimizer.

    Raises:
        UsageError: always.
    """
    raise UsageError(
        "a shared optimizer can be neither copied nor pickled, since its state lies on the "
        "servers: keep optimizer.state_dict(), which holds its hyper-parameters"
    )


@final
class KeptGroups:
    """What the groups of one shared optimizer were at first."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        by_rows: Mapping[nn.Parameter, str],
    ) -> None:
        """``by_rows``: {parameter: its name}, of those that change by rows."""
        self._own, self._kind = optimizer, type(optimizer).__name__
        self._from_the_start = _FROM_THE_START.get(self._kind, ())
        self._groups = optimizer.param_groups
        self._params = [list(group["params"]) for group in self._groups]
        self._lists = [group["params"] for group in self._groups]
        self._hyper = [
            {name: group[name] for name in optimizer.defaults if name in group}
            for group in self._groups
        ]
        self._by_rows = [
            next((by_rows[one] for one in own if one in by_rows), None)
            for own in self._params
        ]

    def check(self, groups: list[dict[str, Any]]) -> None:
        """Refuse what no server would hear of.

        Raises:
            UsageError: groups, their parameters or their values changed so that a step
                would not be what the plain loop's is.
        """
        if groups is not self._groups or self._own.param_groups is not self._groups:
            raise UsageError(
                "step(): optimizer.param_groups is another list than when it was shared, "
                "and the servers hear of the first one only: change values within the "
                'groups (group["lr"] = ...)'
            )
        if len(groups) != len(self._params):
            raise UsageError(
                f"step(): expected {len(self._params)} parameter groups, as when the model "
                f"was shared, got {len(groups)}: {_REST}"
            )
        for index, group in enumerate(groups):
            self._check_params(index, group)
            self._check_hyper(index, group)

    def _check_params(self, index: int, group: dict[str, Any]) -> None:
        own, found = self._params[index], group["params"]
        count = len(own)
        if len(found) < count or not all(map(is_, own, found)):
            raise UsageError(
                f"step(): parameters of group {index} are not those that were shared: one "
                f"was taken out or replaced; to leave one as it is, let it have no "
                f"gradient (requires_grad=False, or grad = None)"
            )
        # Behind them gradients of rows are shown; those are no parameters.
        for added in found[count:]:
            if added.requires_grad:
                raise UsageError(
                    f"step(): group {index} has got another parameter, of shape "
                    f"{tuple(added.shape)}, since it was shared: {_REST}"
                )
        if found is not self._lists[index]:
            self._lists[index][:] = found  # where gradients of rows appear
            group["params"] = self._lists[index]

    def _check_hyper(self, index: int, group: dict[str, Any]) -> None:
        before = self._hyper[index]
        for name, value in before.items():
            if name not in group:
                raise UsageError(f"step(): {name!r} of parameter group {index} is gone")
            if group[name] is value or name in _EXECUTION:
                continue
            if _shape_of(value) != _shape_of(group[name]):
                raise UsageError(
                    f"step(): {name!r} of parameter group {index} was {value!r} when it "
                    f"was shared; expected {_shape_of(value)}, got {group[name]!r}"
                )
        for name in self._from_the_start:
            if group.get(name) and not before.get(name):
                raise UsageError(
                    f"step(): {name}={group[name]!r} of parameter group {index} was "
                    f"switched on after share, and {self._kind} keeps state for it from "
                    f"its first step on: set it before session.share"
                )
        row = self._by_rows[index]
        if row is not None and (why := why_not_by_rows(self._kind, group)) is not None:
            raise UsageError(
                f"step(): {row!r} was shared as a weight that changes by rows, and {why}: "
                f"set it before session.share, or leave it 0 in parameter group {index}"
            )


def _shape_of(value: object) -> str:
    """Numbers may become others, also those in a tensor; nothing else is a number."""
    if isinstance(value, torch.Tensor):
        return "a number" if value.numel() == 1 else "a tensor"
    if isinstance(value, numbers.Real):
        return "a number"
    if isinstance(value, tuple | list):
        return f"{len(value)} numbers"
    return "no number"
