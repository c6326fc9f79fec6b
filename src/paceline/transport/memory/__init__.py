"""Memory between processes of one host.

::

    shared_memory   whether it may be used at all; one process writes, others read
    mailbox         buffers of requests and replies
    doorbell        waiting for a word of memory
"""

from paceline.transport.memory.doorbell import wait_change, wake_all
from paceline.transport.memory.mailbox import (
    Incoming,
    Mailboxes,
    MailboxOffer,
    Outgoing,
    decode_offer,
    find,
)
from paceline.transport.memory.shared_memory import (
    LentMemory,
    find_memory,
    is_supported,
    may_share_memory,
)
