"""Where compiled loops are kept for the next process, if anywhere.

numba keeps them beside the source, in ``$NUMBA_CACHE_DIR``, or in the user's cache folder
(``$XDG_CACHE_HOME``, else below the home). Where the installation is read-only and no home
can be written to, as in many containers, there is none of these. Then they are kept in
``$TMPDIR/paceline-cache-<user>``: what lies there is code, so it is used only if nobody but
this user can have put it there. Never in a job folder. Without any place every process
compiles for itself, which takes a minute.

Waits: for the file system only.
"""

import functools
import logging
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache

from paceline.machine import own_user

_log = logging.getLogger("paceline.kernels")


@functools.cache
def is_kept_at_all() -> bool:
    """Whether there is a place; one is made if need be. Asked once, of this very file."""
    return find_place(is_kept_at_all.__wrapped__)


def find_place(function: Callable[..., Any]) -> bool:
    """Whether numba can keep what it makes of a function, perhaps in a folder of ours."""
    if _has_place(function):
        return True
    user = own_user()
    if user is None:  # whose a file is cannot be told here
        return False
    folder = Path(_temporary(), f"paceline-cache-{user}")
    why = _why_not(folder)
    if why is None:
        numba.config.CACHE_DIR = str(folder)
        why = None if _has_place(function) else "numba cannot write there"
    if why is not None:
        _log.warning(
            "compiled loops are kept nowhere, so every process compiles them: %s: %s; set "
            "NUMBA_CACHE_DIR to a folder of your own",
            folder,
            why,
        )
    return why is None


def _has_place(function: Callable[..., Any]) -> bool:
    try:
        FunctionCache(function)
    except RuntimeError:  # "no locator available"
        return False
    return True


def _temporary() -> str:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:  # no folder for temporary files can be written to
        return os.devnull


def _why_not(folder: Path) -> str | None:
    """Why a folder, made if need be, is not used; None if it is this user's alone."""
    try:
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        return error.strerror or str(error)
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISDIR(found.st_mode) and found.st_uid == own_user() and mode == 0o700:
        return None
    return (
        f"expected a folder of user {own_user()} with mode 0700, got one of user "
        f"{found.st_uid} with mode {mode:04o}"
    )
