"""The run's secret as a file of the job folder, for whoever may look at the job.

Made anew for each run (never written over what is there, nor through a link), readable by
its owner only, removed when the run has ended. What others could read is not believed: it
is a secret no more.

Waits: for the file system only.
"""

import os
import stat
from pathlib import Path

from paceline.errors import UsageError
from paceline.transport.handshake import Secret

_MODE = 0o600
_FLAGS = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def write_secret(path: Path, secret: Secret) -> None:
    """Make the file, in the place of one that a killed launcher left.

    Raises:
        UsageError: it cannot be made.
    """
    path.unlink(missing_ok=True)
    try:
        descriptor = os.open(path, _FLAGS, _MODE)
        with os.fdopen(descriptor, "w") as file:
            file.write(secret.text() + "\n")
    except OSError as error:
        raise UsageError(f"cannot write the run's secret to {path}: {error}") from error


def read_secret(path: Path) -> Secret | None:
    """The secret; None when there is no such file: the run needs none, or has ended.

    Raises:
        UsageError: it cannot be read, is no secret, or others can read it.
    """
    try:
        with path.open() as file:
            found = os.fstat(file.fileno())
            text = file.read(4096)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the run's secret: {error}") from error
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid() or mode & 0o077:
        raise UsageError(
            f"{path}: expected a file of user {os.geteuid()} with mode 0600, got user "
            f"{found.st_uid} and mode {mode:04o}; others can read the run's secret"
        )
    return Secret.parse(text, str(path))


def remove_secret(path: Path) -> None:
    """Nobody is to be let in any more; done twice is done once."""
    path.unlink(missing_ok=True)
