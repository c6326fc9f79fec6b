"""Whether trainers share the same: the n-th part is one part, whoever shares it.

Pure.
"""

from paceline.messages import PartSpec
from paceline.pace.changing import is_same_part


def why_not_same(agreed: PartSpec, came: PartSpec) -> str | None:
    """Why what a trainer shares is not the part that the job has; None if it is.

    Hyper-parameters may differ: they travel with every push.
    """
    if is_same_part(agreed, came):
        return None
    return f"part {came.part} was first shared as {agreed}, now as {came}"
