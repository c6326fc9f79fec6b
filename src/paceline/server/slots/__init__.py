"""The numbers of one server, and queues in front of the slots.

::

    slots        queues before the slots: turns in the order of decisions; pushes
    actions      what else may happen to slots: rounds, reads, cuts
    turns        what is done in a turn; threads beside the one a round has come to
    merging      several pushes as one update
    rounds       the update of a round
    block_reads  a pull of dense blocks
    published    values that trainers of this host read by themselves
"""

from paceline.server.slots.actions import Actions, at_rate
from paceline.server.slots.block_reads import BlockReads
from paceline.server.slots.rounds import Contributed, agreed_hyper, count_bytes
from paceline.server.slots.slots import Slots, SlotTensors
from paceline.server.slots.turns import ROW_QUEUES, Action, SlotRunners, nothing
