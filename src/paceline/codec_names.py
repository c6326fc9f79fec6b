"""Names of the codecs by which gradients and values travel, as a pace says them.

==========  ==================================================================
``fp16``    gradients and values in 16 bits, IEEE
``bf16``    gradients and values in 16 bits, with float32's range
``int8``    gradients in 8 bits, with a scale for a row or 1,024 elements
``int4``    dense gradients in 4 bits, with a scale for 128 elements
``top1%``   of dense gradients the greatest 1 % of each 4,096 elements
==========  ==================================================================

What they do is in `paceline.params.codecs`; here is only what a user may write, so that
whoever looks at a pace needs neither torch nor numpy.
"""

import re
from fractions import Fraction
from typing import Final

from paceline.errors import UsageError

ROUNDING: Final = ("fp16", "bf16", "int8", "int4")

# One way to write one number: specs of two machines are compared by their text.
_TOP = re.compile(r"top((?:0|[1-9]\d{0,2})(?:\.\d{0,3}[1-9])?)%")


def top_share(name: str) -> Fraction | None:
    """Which share of the elements ``top<P>%`` keeps, in (0, 1]; None for other names."""
    found = _TOP.fullmatch(name)
    if found is None:
        return None
    share = Fraction(found[1]) / 100
    return share if 0 < share <= 1 else None


def require_codec(pace: str, name: object) -> None:
    """Refuse what is neither the name of a codec nor None with a `UsageError`."""
    if name is None or name in ROUNDING:
        return
    if not isinstance(name, str) or top_share(name) is None:
        raise UsageError(
            f"{pace}: codec is one of {', '.join(ROUNDING)} or top<P>% with P in (0, 100], "
            f"like top1% or top0.5%, got {name!r}"
        )
