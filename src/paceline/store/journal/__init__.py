"""The coordinator's journal on SQLite.

::

    journal       outcomes that cannot be asked for again
    lost_frames   whether SQLite lost what it had acknowledged
"""

from paceline.store.journal.journal import FORMAT, Journal, wait_until_free

__all__ = ["FORMAT", "Journal", "wait_until_free"]
