"""What paces ask of their options."""

import math

from paceline.errors import UsageError


def require(condition: bool, text: str) -> None:
    """Raise a `UsageError` with this text unless the condition holds."""
    if not condition:
        raise UsageError(text)


def is_number(value: object) -> bool:
    """Whether a value is a finite number; True and False are none."""
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and math.isfinite(value)  # type: ignore[arg-type]  # it is a number


def is_whole(value: object) -> bool:
    """Whether a value is a whole number; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def require_every(pace: str, every: object) -> None:
    """Raise a `UsageError` unless it is a number of batches."""
    require(
        is_whole(every) and every >= 1,  # type: ignore[operator]  # it is a whole number
        f"{pace}: every is a number of batches >= 1, got {every!r}",
    )


def require_outer(pace: str, lr: object, momentum: object) -> None:
    """Raise a `UsageError` unless both are those of an outer step."""
    require(
        is_number(lr) and lr > 0,  # type: ignore[operator]  # it is a number
        f"{pace}: lr is a number > 0, got {lr!r}",
    )
    require(
        is_number(momentum) and 0 <= momentum < 1,  # type: ignore[operator]  # it is a number
        f"{pace}: momentum is a number from 0 to below 1, got {momentum!r}",
    )
