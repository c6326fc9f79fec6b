"""Public data sets by name, fetched and checked.

::

    sets       where each lies, and what its files must hash to
    archives   archives they lie in
"""

__all__ = []
