"""What a user says of a job in a cluster, checked by what Kubernetes takes.

What it refuses is refused here, by the option that says it: a manifest is made far from the
cluster, and often long before.

Pure.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from paceline.errors import UsageError

ROLES: Final = ("coordinator", "server", "trainer")
MOST_NAME: Final = 40  # of the 63 that a pod's name may have with what is put behind it
MOST_INDEXES: Final = 100_000  # of a Job

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_CPU = re.compile(r"\d{1,6}(?:\.\d{1,3}|m)?")
_BYTES = re.compile(r"\d{1,12}(?:\.\d{1,3})?(?:[KMGTPE]i|[kMGTPE])?")
_IMAGE = re.compile(r"[A-Za-z0-9][\w.:/@+-]*", re.ASCII)
_CLAIM = "claim:"
_OWN_DISK = {"file", "local", "memory"}  # URLs of what each container has for itself

_DEFAULTS: Final[Mapping[str, tuple[str, str]]] = {
    "coordinator": ("1", "2Gi"),
    "server": ("2", "4Gi"),
    "trainer": ("4", "8Gi"),
}


class RoleNeeds(NamedTuple):
    """What a pod of a role asks for, as Kubernetes writes it: ``500m``, ``4Gi``."""

    cpu: str
    memory: str


class SharedPlace(NamedTuple):
    """Where checkpoints lie: a URL; or a folder of a claim that all pods mount.

    ``path`` is the URL, or the folder within the claim.
    """

    path: str
    claim: str = ""


class ManifestWish(NamedTuple):
    """A job as a manifest has it; all of it is checked.

    ``words``: options of ``paceline run``, the script and its arguments, for the
    coordinator. ``trainers``: at most. ``ranks_per_trainer``: processes of each. ``user``:
    the numbers of user and group that containers run as. Empty texts: nothing is said.
    """

    name: str
    image: str
    place: SharedPlace
    words: tuple[str, ...]
    trainers: int
    servers: int
    needs: Mapping[str, RoleNeeds]
    ranks_per_trainer: int = 1
    gpus: int = 0
    namespace: str = ""
    storage: str = "10Gi"
    storage_class: str = ""
    env_from: str = ""
    service_account: str = ""
    user: int = 1000
    is_plain: bool = False


def require_label(
    option: str, text: str, most: int = 63, *, is_namespace: bool = False
) -> str:
    """Let it be a DNS label; that of a Service, unlike a namespace, begins with a letter.

    Raises:
        UsageError: it is none, or too long.
    """
    begins = is_namespace or not text[:1].isdigit()
    if _LABEL.fullmatch(text) and len(text) <= most and begins:
        return text
    first = "no hyphen first or last" if is_namespace else "a letter first, no hyphen last"
    raise UsageError(
        f"{option}: expected at most {most} small letters, digits and hyphens, {first}, "
        f"got {text!r}"
    )


def require_name(option: str, text: str) -> str:
    """Let it be what an object of a cluster may be called.

    Raises:
        UsageError: it is none.
    """
    if _NAME.fullmatch(text) and len(text) <= 253:
        return text
    raise UsageError(
        f"{option}: expected the name of an object of the cluster (small letters, digits, "
        f"hyphens, dots), got {text!r}"
    )


def require_image(text: str) -> str:
    """Let it be what a container's image may be called.

    Raises:
        UsageError: it is none.
    """
    if _IMAGE.fullmatch(text):
        return text
    raise UsageError(
        f"--image: expected an image such as registry.example/job:1, got {text!r}"
    )


def require_quantity(option: str, text: str) -> str:
    """Let it be an amount of bytes as Kubernetes writes it.

    Raises:
        UsageError: it is none.
    """
    return _quantity(option, text, _BYTES, "an amount such as 8Gi or 500Mi")


def require_count(option: str, number: int, least: int, most: int) -> int:
    """Let a number be within bounds.

    Raises:
        UsageError: it is not.
    """
    if least <= number <= most:
        return number
    raise UsageError(f"{option}: expected {least} to {most}, got {number}")


def shared_place(text: str) -> SharedPlace:
    """Read where all pods find checkpoints: a URL, or ``claim:NAME/FOLDER``.

    Raises:
        UsageError: it is a place that each container has for itself.
    """
    if text.startswith(_CLAIM):
        claim, _, folder = text.removeprefix(_CLAIM).partition("/")
        parts = folder.split("/")
        if ".." in parts or not all(parts):
            raise UsageError(
                f"--checkpoints {text}: expected claim:NAME/FOLDER, a folder within the "
                "volume of a PersistentVolumeClaim"
            )
        return SharedPlace(folder, require_name("--checkpoints claim:", claim))
    scheme, is_url, rest = text.partition("://")
    if is_url and rest and scheme not in _OWN_DISK:
        return SharedPlace(text)
    raise UsageError(
        f"--checkpoints {text}: each container has its own disk: expected a URL that all "
        "pods reach, such as s3://bucket/cuts, or claim:NAME/FOLDER for a "
        "PersistentVolumeClaim that is there, with access mode ReadWriteMany"
    )


def needs_by_role(cpu: str | None, memory: str | None) -> dict[str, RoleNeeds]:
    """Read what pods ask for: ``4`` for all, or ``trainer=8,server=2``; None: as usual.

    Raises:
        UsageError: it is no amount, or there is no such role.
    """
    cores = _by_role("--cpu", cpu, _CPU, "a number such as 4, 1.5 or 500m")
    memories = _by_role("--memory", memory, _BYTES, "an amount such as 8Gi or 500Mi")
    return {
        role: RoleNeeds(cores.get(role, usual[0]), memories.get(role, usual[1]))
        for role, usual in _DEFAULTS.items()
    }


def _by_role(
    option: str, text: str | None, pattern: re.Pattern[str], expected: str
) -> dict[str, str]:
    if text is None:
        return {}
    if "=" not in text:
        return dict.fromkeys(ROLES, _quantity(option, text, pattern, expected))
    found: dict[str, str] = {}
    for piece in text.split(","):
        role, _, amount = piece.partition("=")
        if role not in ROLES or role in found:
            raise UsageError(
                f"{option}: expected {expected} for all, or for each of "
                f"{', '.join(ROLES)} once, as trainer=...,server=..., got {piece!r}"
            )
        found[role] = _quantity(option, amount, pattern, expected)
    return found


def _quantity(option: str, text: str, pattern: re.Pattern[str], expected: str) -> str:
    if pattern.fullmatch(text) and re.search("[1-9]", text):
        return text
    raise UsageError(f"{option}: expected {expected}, got {text!r}")
