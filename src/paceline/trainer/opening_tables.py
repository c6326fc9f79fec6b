"""A table that was shared, as the user is to have it.

Pure.
"""

from paceline.trainer.group_follower import Follower
from paceline.trainer.membership import Membership
from paceline.trainer.own_rows import OwnRows
from paceline.trainer.replica import AskingServers, Replica
from paceline.trainer.staging import Stages
from paceline.trainer.table import Table
from paceline.trainer.writing import TableWriter


def open_table(
    membership: Membership | Follower,
    stages: Stages,
    rows: OwnRows,
    replicate_every: int | None,
) -> Table:
    """The table of these rows; with a copy of them, if it is replicated."""
    assert isinstance(membership, Membership), "trainers of several processes have none"
    if replicate_every is not None:
        calls, protocol = membership.calls, membership.carrier.protocol
        servers = AskingServers(
            protocol, membership.driver, lambda: calls.open_call is not None
        )
        rows.replica = Replica(rows.part, replicate_every, servers)
    return Table(rows, TableWriter(membership, stages))
