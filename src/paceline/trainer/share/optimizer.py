"""The optimizer that `Session.share` returns: the user's, with its step on the servers.

It has the parameter groups and hooks of the user's own optimizer, so that schedulers,
clipping and `GradScaler` work on it as before; their values travel with every push, and
hooks are called with the shared one. Gradients of rows that wait for a step are shown in
the last group.

Of `GradScaler` it is one of the optimizers that see to scaled gradients themselves (as
torch's fused ones do): so a step that finds infinities is a step, too, and its batches
count; only no gradient of it is used.

Waits: for servers and coordinator, in `step`. The thread of the user's loop calls.
"""

from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import nn
from torch._C._autograd import _profiler_enabled

from paceline.errors import UsageError
from paceline.trainer.engine import Scaled
from paceline.trainer.model import (
    KeptGroups,
    StateElsewhere,
    check_state,
    has_step_hooks,
    keep_own,
    load_own_state,
    own_state,
    refuse_copy,
)
from paceline.trainer.share.second_optimizers import LOOKOUT, SteppedParameters

Step = Callable[[Scaled], None]


@final
class SharedOptimizer(torch.optim.Optimizer):
    """A `torch.optim` optimizer whose state and update live on the servers."""

    # `GradScaler.step` then sets `grad_scale` and `found_inf` for the time of a step.
    _step_supports_amp_scaling = True

    def __init__(
        self,
        optimizer: torch.optim.Optimizer | None,
        step: Step,
        drop_rows: Callable[[], None],
        *,
        by_rows: Mapping[nn.Parameter, str] | None = None,
        steps_here: bool = False,
    ) -> None:
        """Wrap the user's optimizer; `Session.share` does this.

        Args:
            optimizer: None for a model of embeddings only.
            step: pushes everything that was shared; is told what a `GradScaler` found.
            drop_rows: forgets the gradients of rows.
            by_rows: {parameter: its name}, of those that change by rows.
            steps_here: steps are taken by the user's own object.
        """
        self._is_shared = self._has_stepped = False
        self._steps_here = steps_here
        groups = [{"params": []}] if optimizer is None else optimizer.param_groups
        super().__init__(groups, {} if optimizer is None else optimizer.defaults)
        self.state = StateElsewhere(dict)
        self._groups: KeptGroups | None = None
        if optimizer is not None:
            # The very same groups: a scheduler on the user's own object counts as well.
            keep_own(optimizer, self, steps_here=steps_here)
            self._groups = KeptGroups(optimizer, by_rows or {})
        self._wrapped, self._step, self._drop_rows = optimizer, step, drop_rows
        self._is_shared = True
        self.watched: SteppedParameters | None = (
            None  # others that step its parameters are told
        )

    __getstate__ = refuse_copy

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]  # torch overloads it for closures
        """Push the gradients since the last step, dense ones and rows, as one step.

        The batches delivered since the last step count once all servers have acknowledged.
        If a server or the coordinator is lost meanwhile, this waits for its successor; if
        the job returns to its last cut, nothing is applied: a `StepWarning` says so, and
        the loop goes on with what is leased next. Gradients that are not finite are not
        applied: the batch counts, and a `StepWarning` says so.

        Raises:
            UsageError: a closure was given; groups were changed so that no server would
                hear of it; outside of `Session.batches`; or no batch was delivered since
                the last step.
            JobFailed: the job as a whole cannot go on.
        """
        # Whether hooks are to be called, or a profiler is to be told.
        if has_step_hooks(self, LOOKOUT.num_hooks) or _profiler_enabled():
            _step_followed(self, *(() if closure is None else (closure,)))
        else:
            self._push(closure)

    # Torch wraps nothing then: its hooks and its name in a profile take 20 us a step,
    # whether somebody has asked for them or not.
    step.hooked = True  # type: ignore[attr-defined]

    def _push(self, closure: Callable[[], float] | None = None) -> None:
        if closure is not None:
            raise UsageError(
                "step(closure): an optimizer that evaluates the model again cannot be "
                "shared; call backward() yourself, then step()"
            )
        check_state(self, self._wrapped, steps_here=self._steps_here)
        if self._groups is not None:
            self._groups.check(self.param_groups)
        self._has_stepped = True
        self._step(self._unscale())
        if self._wrapped is not None:
            # A scheduler made before sharing looks here for a step before its own.
            vars(self._wrapped)["_opt_called"] = True

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As torch's; gradients of rows that no step has used are dropped as well."""
        if set_to_none and not _profiler_enabled():
            # Torch's makes ready to tell a profiler, which takes longer than all of this.
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.grad = None
        else:
            super().zero_grad(set_to_none)
        self._drop_rows()

    def state_dict(self) -> dict[str, Any]:
        """Hyper-parameters of the groups, as torch's; the state is on the servers.

        With steps taken here it is that of the trainer's own optimizer, state and all.
        """
        if self._steps_here and self._wrapped is not None:
            return own_state(self._wrapped)
        # Rows that are shown come last, and are gone with the next step.
        last = self.param_groups[-1]["params"]
        own = sum(isinstance(parameter, nn.Parameter) for parameter in last)
        shown, last[own:] = last[own:], []
        try:
            return super().state_dict()
        finally:
            last += shown

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused once the model is shared: a part never changes.

        Raises:
            UsageError: always, after `Session.share`.
        """
        if self._is_shared:
            raise UsageError(
                "add_param_group: what is shared cannot grow; share the rest of the "
                "model with an optimizer of its own"
            )
        super().add_param_group(param_group)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over hyper-parameters; optimizer state lies in the job's checkpoints.

        With steps taken here it is that of the trainer's own optimizer, state and all.

        Raises:
            UsageError: it carries optimizer state, or has other groups; or a step was
                taken, whose state would stay as it is.
        """
        if self._has_stepped and not self._steps_here:
            raise UsageError(
                "load_state_dict after a step: the optimizer's state lies on the servers "
                'and would stay as it is. Change values within the groups (group["lr"] = '
                "...); to begin with a new optimizer, session.unshare(model) between two "
                "loops, and share again; to go back, begin the job again from a checkpoint"
            )
        self.load_tracked(state_dict)

    def load_tracked(self, state_dict: dict[str, Any]) -> None:
        """As `load_state_dict`, where servers return to the same checkpoint.

        Raises:
            UsageError: it carries optimizer state that is not here, or has other groups.
        """
        if self._steps_here and self._wrapped is not None:
            load_own_state(self._wrapped, state_dict)
            return
        for before in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = before(self, dict(state_dict)) or state_dict
        if state_dict["state"]:
            raise UsageError(
                "load_state_dict: the optimizer's state lives on the servers; resume the "
                "job instead (paceline run --resume)"
            )
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise UsageError(
                f"load_state_dict: expected {len(self.param_groups)} parameter groups, "
                f"got {len(saved)}"
            )
        for group, values in zip(self.param_groups, saved, strict=True):
            group.update({k: v for k, v in values.items() if k != "params"})
        for after in self._optimizer_load_state_dict_post_hooks.values():
            after(self)

    def _unscale(self) -> Scaled:
        """Do to the gradients what `GradScaler.unscale_` does, unless it has."""
        found_inf: torch.Tensor | None = getattr(self, "found_inf", None)
        if found_inf is None:
            return "never"
        if found_inf.item():
            return "not finite"
        scale: torch.Tensor | None = getattr(self, "grad_scale", None)
        if scale is not None:
            inverse = scale.double().reciprocal().float().item()
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter.grad.mul_(inverse)
        return "unscaled"


# As torch has it for every other optimizer.
_step_followed = torch.optim.Optimizer.profile_hook_step(SharedOptimizer._push)
