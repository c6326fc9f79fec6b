"""Every message on the wire: one tagged union per link.

::

    trainer  --TrainerRequest-->  coordinator  --TrainerReply-->   trainer
    server   --ServerReport--->   coordinator  --Orders-->         server
    launcher --LauncherReport-->  coordinator  --LauncherOrders--> launcher
    operator --Scale, ChangePace> coordinator  --Done-------->     operator
    observer --AskStatus------->  coordinator  --JobStatus-->      observer
    trainer  --DataRequest----->  server       --DataReply-->      trainer
    trainer  --PeerRequest----->  trainer      --PeerReply-->      trainer
    host     --HostReport------>  launcher     --HostOrders-->     host
    host     --Echo------------>  host         --Echoed------>     host
    observer --AskPlace, AskLog>  launcher     --JobPlace, LogPiece> observer

All links are request and reply; whoever waits, asks, and its question may be *parked*
until there is an answer or a bound is reached (`Waiting`, with the `Wait`). A server's
report says how things stand and the orders in the reply say what to do next: orders are
computed anew from the coordinator's state and the report, so losing, repeating or
delaying either changes nothing.

Tensors are not in these structs: a frame carries them as raw buffers behind the message,
in the order that the message's docstring states.
"""

import msgspec

from paceline.messages.data import DataReply, DataRequest
from paceline.messages.hosts import (
    AskLog,
    AskLogs,
    AskPlace,
    Echo,
    Echoed,
    ExamJoined,
    ExamOrders,
    ExamReport,
    HostJoined,
    HostOrders,
    HostReport,
    JobPlace,
    JoinHost,
    LogPiece,
    LogSizes,
)
from paceline.messages.peers import PeerReply, PeerRequest
from paceline.messages.server import Orders, ServerReport
from paceline.messages.shared import Waiting
from paceline.messages.trainer import TrainerReply, TrainerRequest
from paceline.messages.watching import (
    AskStatus,
    ChangePace,
    Interrupt,
    JobStatus,
    LauncherOrders,
    LauncherReport,
    Scale,
    TakeCut,
)

# The first decoder of a message makes msgspec learn its fields; another thread that makes
# one meanwhile is handed the half-learned table and dies of SIGSEGV (0.22). So all are
# learned here, under the import's lock.
for _link in (
    TrainerRequest,
    TrainerReply,
    DataRequest,
    DataReply,
    PeerRequest,
    PeerReply,
    ServerReport | Orders | Waiting,
    LauncherReport | LauncherOrders | JobStatus,
    AskStatus | JobStatus,
    Scale | ChangePace | TakeCut | Interrupt,
    JoinHost | HostReport | ExamReport,
    HostJoined | HostOrders | ExamJoined | ExamOrders,
    Echo,
    Echoed,
    AskPlace | AskLogs | AskLog,
    JobPlace | LogSizes | LogPiece,
):
    msgspec.msgpack.Decoder(_link)
