"""Whether trainers share the same: the n-th part is one part, whoever shares it.

Pure.
"""

from paceline.messages import PartSpec


def why_not_same(agreed: PartSpec, came: PartSpec) -> str | None:
    """Why what a trainer shares is not the part that the job has; None if it is.

    Hyper-parameters may differ: they travel with every push.
    """
    same = (
        agreed.parameters == came.parameters
        and agreed.tables == came.tables
        and agreed.pace == came.pace
        and agreed.strategy == came.strategy
        and _kind(agreed) == _kind(came)
    )
    return None if same else f"part {came.part} was first shared as {agreed}, now as {came}"


def _kind(spec: PartSpec) -> str | None:
    return None if spec.optimizer is None else spec.optimizer.kind
