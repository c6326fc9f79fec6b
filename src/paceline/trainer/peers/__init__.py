"""Trainer to trainer: a door, events, values that are exchanged.

::

    link              a door that others come to, who may ask there, the way to theirs
    events            events of other trainers
    collective        one collective call: brings, asks, combines
    reduction         in one order, so to the same bits everywhere
    outbox            what is laid out for others
    through_servers   the same by the rows of a table
    calls             collective calls of a script
"""

from paceline.trainer.peers.calls import Collectives, check_call
from paceline.trainer.peers.collective import CollectiveCall, Kind, Operation, Slice
from paceline.trainer.peers.events import SEND_S, Event, PeerEvents
from paceline.trainer.peers.link import NO_LINK, PeerLink, PeerWires
from paceline.trainer.peers.reduction import Array, How
