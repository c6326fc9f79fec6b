"""Memory between processes of one host.

::

    shared_memory   whether it may be used at all
    lent_memory     one process writes, others read
    mailbox         buffers of requests and replies
    mailboxes       which request lies in which
    doorbell        waiting for a word of memory

The names load when they are asked for: whoever needs one is not given the others.
"""

from typing import TYPE_CHECKING

from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.transport.memory.doorbell import wait_change, wake_all
    from paceline.transport.memory.lent_memory import LentMemory, find_memory, is_supported
    from paceline.transport.memory.mailbox import (
        Incoming,
        MailboxOffer,
        Outgoing,
        decode_offer,
        find,
    )
    from paceline.transport.memory.mailboxes import Mailboxes
    from paceline.transport.memory.shared_memory import may_share_memory

__all__ = [
    "Incoming",
    "LentMemory",
    "MailboxOffer",
    "Mailboxes",
    "Outgoing",
    "decode_offer",
    "find",
    "find_memory",
    "is_supported",
    "may_share_memory",
    "wait_change",
    "wake_all",
]

_LAZY = {  # {name: the module that defines it}
    "Incoming": "paceline.transport.memory.mailbox",
    "LentMemory": "paceline.transport.memory.lent_memory",
    "Mailboxes": "paceline.transport.memory.mailboxes",
    "MailboxOffer": "paceline.transport.memory.mailbox",
    "Outgoing": "paceline.transport.memory.mailbox",
    "decode_offer": "paceline.transport.memory.mailbox",
    "find": "paceline.transport.memory.mailbox",
    "find_memory": "paceline.transport.memory.lent_memory",
    "is_supported": "paceline.transport.memory.lent_memory",
    "may_share_memory": "paceline.transport.memory.shared_memory",
    "wait_change": "paceline.transport.memory.doorbell",
    "wake_all": "paceline.transport.memory.doorbell",
}
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)
