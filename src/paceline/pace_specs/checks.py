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


def require_count(pace: str, option: str, value: object, what: str, least: int) -> None:
    """Raise a `UsageError` unless an option is a number of these from ``least`` on."""
    require(
        is_whole(value) and value >= least,  # type: ignore[operator]  # it is a whole number
        f"{pace}: {option} is a number of {what} >= {least}, got {value!r}",
    )


def require_word(pace: str, option: str, value: str, one: str, other: str) -> None:
    """Raise a `UsageError` unless an option is one of two words."""
    text = f"{pace}: {option} is {one!r} or {other!r}, got {value!r}"
    require(value in (one, other), text)


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
