"""Every message on the wire: one tagged union per link.

::

    trainer  --TrainerRequest-->  coordinator  --TrainerReply-->   trainer
    server   --ServerReport--->   coordinator  --Orders-->         server
    launcher --LauncherReport-->  coordinator  --LauncherOrders--> launcher
    operator --Scale----------->  coordinator  --Done-------->     operator
    observer --AskStatus------->  coordinator  --JobStatus-->      observer
    trainer  --DataRequest----->  server       --DataReply-->      trainer

All links are request and reply; whoever waits, asks, and its question may be *parked*
until there is an answer or a bound is reached (`Waiting`, with the reason). A server's
report says how things stand and the orders in the reply say what to do next: orders are
computed anew from the coordinator's state and the report, so losing, repeating or
delaying either changes nothing.

Tensors are not in these structs: a frame carries them as raw buffers behind the message,
in the order that the message's docstring states.
"""

import msgspec

from paceline.messages.data import (
    DataReply,
    DataRequest,
    Pull,
    Pulled,
    PulledRows,
    PullRows,
    Push,
    Pushed,
    RowSlots,
    Upload,
)
from paceline.messages.server import (
    CommitRound,
    CreatePart,
    CutReport,
    Fence,
    FenceReport,
    FileEntry,
    Forget,
    MarkEntry,
    MarksReport,
    Order,
    Orders,
    PartReport,
    Restore,
    SendMarks,
    ServerAnswer,
    ServerReport,
    ShutDown,
    Snapshot,
)
from paceline.messages.shared import (
    Block,
    Contribution,
    Done,
    Hyper,
    HyperValue,
    Lease,
    Message,
    OptimizerSpec,
    ParameterSpec,
    PartPlan,
    PartSpec,
    Refusal,
    RefusalKind,
    StageSpec,
    TableSpec,
    Waiting,
)
from paceline.messages.trainer import (
    AskLease,
    AskRecords,
    Beat,
    Beaten,
    BeginStage,
    Claimed,
    ClaimOnce,
    FailTask,
    Granted,
    HandBack,
    Joined,
    JoinTrainer,
    Leave,
    Log,
    PartAnswer,
    PartUploaded,
    Records,
    Save,
    Saved,
    SharePart,
    StageOver,
    Stop,
    Tick,
    Ticked,
    TrainerMessage,
    TrainerReply,
    TrainerRequest,
)
from paceline.messages.watching import (
    AskStatus,
    Exited,
    JobStatus,
    LauncherOrders,
    LauncherReport,
    ProcessStatus,
    QueueStatus,
    Scale,
)

# The first decoder of a message makes msgspec learn its fields; another thread that makes
# one meanwhile is handed the half-learned table and dies of SIGSEGV (0.22). So all are
# learned here, under the import's lock.
for _link in (
    TrainerRequest,
    TrainerReply,
    DataRequest,
    DataReply,
    ServerReport | Orders,
    LauncherReport | LauncherOrders,
    AskStatus | JobStatus,
    Scale,
):
    msgspec.msgpack.Decoder(_link)

__all__ = [
    "AskLease",
    "AskRecords",
    "AskStatus",
    "Beat",
    "Beaten",
    "BeginStage",
    "Block",
    "ClaimOnce",
    "Claimed",
    "CommitRound",
    "Contribution",
    "CreatePart",
    "CutReport",
    "DataReply",
    "DataRequest",
    "Done",
    "Exited",
    "FailTask",
    "Fence",
    "FenceReport",
    "FileEntry",
    "Forget",
    "Granted",
    "HandBack",
    "Hyper",
    "HyperValue",
    "JobStatus",
    "JoinTrainer",
    "Joined",
    "LauncherOrders",
    "LauncherReport",
    "Lease",
    "Leave",
    "Log",
    "MarkEntry",
    "MarksReport",
    "Message",
    "OptimizerSpec",
    "Order",
    "Orders",
    "ParameterSpec",
    "PartAnswer",
    "PartPlan",
    "PartReport",
    "PartSpec",
    "PartUploaded",
    "ProcessStatus",
    "Pull",
    "PullRows",
    "Pulled",
    "PulledRows",
    "Push",
    "Pushed",
    "QueueStatus",
    "Records",
    "Refusal",
    "RefusalKind",
    "Restore",
    "RowSlots",
    "Save",
    "Saved",
    "Scale",
    "SendMarks",
    "ServerAnswer",
    "ServerReport",
    "SharePart",
    "ShutDown",
    "Snapshot",
    "StageOver",
    "StageSpec",
    "Stop",
    "TableSpec",
    "Tick",
    "Ticked",
    "TrainerMessage",
    "TrainerReply",
    "TrainerRequest",
    "Upload",
    "Waiting",
]
