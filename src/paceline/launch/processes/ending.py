"""A script that ends by ``sys.exit(3)``, known as one that ends by any other error is.

The interpreter keeps the error that a script ends with, for who looks for it at exit, and
not `SystemExit`. It reads the exit code of that, which no code of Python's has asked for:
so an end is told from an exit that somebody catches.

Of ``raise SystemExit(3)``, and a ``sys.exit`` that was imported by name before, nothing is
known here.
"""

import sys
import threading
from typing import NoReturn, final


@final
class _Exit(SystemExit):
    """What ``sys.exit`` raises."""

    @property  # type: ignore[override]
    def code(self) -> object:
        """What the script has said; asked by the interpreter, it is the script's end."""
        found = self.args[0] if self.args else None
        try:
            sys._getframe(1)
        except ValueError:  # nobody below: the interpreter itself
            if found is not None and found != 0:
                sys.last_type, sys.last_value = type(self), self
                sys.last_traceback = self.__traceback__
        return found

    @code.setter
    def code(self, status: object) -> None:
        self.args = (status,)


def note_exits() -> None:
    """From now on a script that ends by ``sys.exit`` with a code leaves ``sys.last_value``.

    As it is where the interpreter has shown a traceback.
    """

    def leave(status: object = None, /) -> NoReturn:
        if threading.current_thread() is not threading.main_thread():
            raise SystemExit(status)  # of a thread, whose end says nothing of the script's
        raise _Exit(status)

    sys.exit = leave
