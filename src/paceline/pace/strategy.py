"""A pace of the user's own: a preset, with some of its answers replaced.

ElasticDL leaves two questions to classes (seed ``elasticdl_async_sgd``): when a trainer
goes on or asks for new values, and how servers apply what it pushes. Here the second is a
preset's, since servers run no user's code; the first is asked in the trainer, where the
user's class is at hand anyway.

Pure.
"""

from abc import ABC, abstractmethod

from paceline.config import SSP, Async, AsyncDiLoCo, DiLoCo, LocalSGD, Pace
from paceline.errors import UsageError
from paceline.pace.guards import compensation_of
from paceline.pace.policy import pull_from, push_from, staleness_of


class Strategy(ABC):
    """When a trainer goes on, pushes and pulls, on top of a preset.

    Give an object of a subclass to `Session.share` as ``pace``. Every trainer makes its
    own, of the same class with the same attributes; another one is an error that names
    both. Methods answer by their arguments and attributes alone: they are asked more than
    once about the same step.
    """

    @property
    @abstractmethod
    def preset(self) -> Pace:
        """How servers apply pushes, in which isolation, and what is not replaced."""

    def staleness(self, clock: int) -> int:  # noqa: ARG002  # others' answers need it
        """Steps that a trainer at this clock may be ahead of the slowest; from 0.

        Asked where the preset is `paceline.SSP`.
        """
        bound = staleness_of(self.preset)
        assert bound is not None, f"{self.preset} bounds no clocks"
        return bound

    def push_due(self, num_batches: int) -> bool:
        """Whether a window of so many batches is pushed now; from 1.

        An edge or the end of a task closes it whatever the answer.
        """
        return num_batches >= push_from(self.preset)

    def pull_due(self, num_batches: int, *, has_pushed: bool) -> bool:
        """Whether values are fetched now; not asked in rounds, which bring them.

        Args:
            num_batches: since values were fetched last.
            has_pushed: a push has just left, so that it would be in what is fetched.
        """
        return num_batches >= pull_from(self.preset, has_pushed=has_pushed)

    def __str__(self) -> str:
        """The class with its attributes: what all trainers must agree on."""
        said = ", ".join(f"{name}={value!r}" for name, value in sorted(vars(self).items()))
        return f"{type(self).__qualname__}({said})"


def why_not_strategy(strategy: Strategy, *, overlap: bool) -> str | None:
    """Why a part cannot have this strategy; None if it can."""
    preset, name = strategy.preset, type(strategy).__qualname__
    if overlap and _replaces(strategy, "push_due"):
        return f"overlap=True sends before {name}.push_due is asked: leave one of them out"
    if not isinstance(preset, SSP) and _replaces(strategy, "staleness"):
        return f"{name}.staleness is never asked with {preset}: make the preset an SSP"
    if compensation_of(preset) is not None and _replaces(strategy, "pull_due"):
        return (
            f"{name}.pull_due with {preset}: compensate needs gradients of one push to be "
            f"computed on the same values; leave one of them out"
        )
    if not isinstance(preset, SSP | Async) and _replaces(strategy, "pull_due"):
        return f"{name}.pull_due is never asked with {preset}: a round brings its values"
    if isinstance(preset, AsyncDiLoCo) and _replaces(strategy, "push_due"):
        return (
            f"{name}.push_due with {preset}: its steps are adapted; say them in the preset"
        )
    if isinstance(preset, LocalSGD | DiLoCo) and _replaces(strategy, "push_due"):
        return (
            f"{name}.push_due with {preset}: a round would wait for a trainer that does "
            f"not push; say so many steps in the preset"
        )
    return None


def ask_staleness(strategy: Strategy, clock: int) -> int:
    """What a strategy allows at a clock.

    Raises:
        UsageError: it is no whole number from 0.
    """
    answer: object = strategy.staleness(clock)
    if not isinstance(answer, int) or isinstance(answer, bool) or answer < 0:
        raise UsageError(
            f"{strategy}.staleness({clock}): expected a whole number >= 0, got {answer!r}"
        )
    return answer


def _replaces(strategy: Strategy, method: str) -> bool:
    return getattr(type(strategy), method) is not getattr(Strategy, method)
