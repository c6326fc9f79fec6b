"""Whether a machine has what the job was started with: script, versions, checkpoints.

What differs would train wrong in silence, and is refused by name; what may differ is said.

Waits: for the store of the checkpoints.
"""

import contextlib
import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import xxhash

from paceline.errors import StoreError, UsageError
from paceline.launch.job import UserScript
from paceline.messages.hosts import HostJoined, HostScript
from paceline.store.blobs import BlobStore
from paceline.store.cuts import newest_claim

_SAME = ("paceline",)
_ALIKE = ("torch", "numpy", "numba")


def versions() -> dict[str, str]:
    """Of the libraries that what is trained may depend on: {distribution: version}."""
    found = {}
    for name in (*_SAME, *_ALIKE):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def described(script: UserScript) -> HostScript:
    """A script as another machine can compare its own with it."""
    return HostScript(
        script.path, tuple(script.arguments), script.is_module, _digest(script)
    )


def check_same(joined: HostJoined, say: Callable[[str], None]) -> None:
    """Compare this machine with the launcher's.

    Raises:
        UsageError: the script is not here or another one, paceline is of another version,
            or the place of the checkpoints is not the launcher's.
        StoreError: it cannot be read or written from here.
    """
    own = versions()
    for name, version in joined.versions.items():
        here = own.get(name, "none")
        if here == version:
            continue
        told = f"{name} {here} is installed here, and {version} at the launcher"
        if name in _SAME:
            raise UsageError(f"{told}: install the same version on all machines")
        say(f"{told}: results may differ")
    check_script(joined.script)
    for plugin in joined.config.plugins:
        if plugin.endswith(".py") and not Path(plugin).is_file():
            raise UsageError(f"--plugin: there is no file {plugin} on this machine")
    _check_checkpoints(joined)


def check_script(script: HostScript) -> None:
    """Compare a script here with the launcher's.

    Raises:
        UsageError: it is not here, or is another one.
    """
    here = Path.cwd()
    if not script.is_module and not Path(script.path).is_file():
        raise UsageError(
            f"there is no script {script.path!r} in {here}: start paceline host in a "
            "folder that holds the same files as the launcher's working folder"
        )
    digest = _digest(UserScript(script.path, script.arguments, script.is_module))
    if digest != script.xxh3:
        raise UsageError(
            f"{script.path} in {here} is not what the launcher runs (xxh3 {digest} here, "
            f"{script.xxh3} there): copy the same files to all machines"
        )


def _check_checkpoints(joined: HostJoined) -> None:
    config = joined.config
    store = BlobStore(config.checkpoints)
    claim = newest_claim(store)
    if claim is None or claim.run != config.run:
        raise UsageError(
            f"the checkpoints of the job are not at {store.url} as seen from this machine "
            f"(found {'nothing' if claim is None else f'run {claim.run}'} there): name a "
            "place with --checkpoints that all machines reach, such as a shared folder or "
            "an s3:// URL"
        )
    probe = f"{joined.host}.probe"
    try:
        store.write(probe, [joined.host.encode()])
        store.remove(probe)
    except StoreError as error:
        raise StoreError(f"{store.url} cannot be written from here: {error}") from error


def _digest(script: UserScript) -> str:
    if script.is_module:
        return ""
    return xxhash.xxh3_64_hexdigest(Path(script.path).read_bytes())
