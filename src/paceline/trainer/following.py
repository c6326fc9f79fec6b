"""By what the rows of an embedding learn that names no optimizer: that of its `share`.

::

    share(model, Adam)               its lazy twin, its rate and schedule: of one group
    share(model, None)               Adagrad(lr=0.05)
    rows that are shared already,
    a job that has begun before      what they have

Pure, but for a line in the log.
"""

import logging

import msgspec
import torch

from paceline.errors import UsageError
from paceline.messages import PartSpec, TableSpec
from paceline.params.rows.following import twin_of
from paceline.trainer.describing import hyper_of
from paceline.trainer.embedding import Embedding

_log = logging.getLogger("paceline.trainer")


def table_of(
    module: Embedding, optimizer: torch.optim.Optimizer | None, known: TableSpec | None
) -> TableSpec:
    """What an embedding's table is, its optimizer settled.

    Args:
        module: of a model that is being shared.
        optimizer: what it is shared with.
        known: the table of its name, if there is one in this job.

    Raises:
        UsageError: it follows an optimizer of several groups, or one without a twin.
    """
    spec = module.spec
    if not module.follows:
        return spec
    if known is not None:
        return msgspec.structs.replace(
            spec, optimizer=known.optimizer, follows=known.follows
        )
    if optimizer is None:
        return spec
    kind, groups = type(optimizer).__name__, hyper_of(optimizer.param_groups)
    write = (
        f"say what its rows learn by, such as "
        f"Embedding({spec.name!r}, {spec.dim}, optimizer=paceline.Adam(lr=0.001))"
    )
    front = f"share: the embedding {spec.name!r} follows the optimizer of its model"
    if len(groups) != 1:
        raise UsageError(
            f"{front}, which has {len(groups)} parameter groups, each with a rate of its "
            f"own: {write}"
        )
    try:
        twin = twin_of(kind, groups[0])
    except UsageError as error:
        raise UsageError(f"{front}, and {error}; {write}") from error
    return msgspec.structs.replace(spec, optimizer=twin, follows=True)


def agreed_tables(came: PartSpec, agreed: PartSpec) -> tuple[TableSpec, ...]:
    """The tables of a part as its job has them; one line in the log where that is else."""
    for before, now in zip(agreed.tables, came.tables, strict=True):
        was, says = (before.optimizer, before.follows), (now.optimizer, now.follows)
        if was != says and not (before.follows and now.follows):
            _log.warning(
                "rows of %r go on with %s, as the job began, not with %s",
                now.name,
                before.optimizer,
                now.optimizer,
            )
    return agreed.tables
