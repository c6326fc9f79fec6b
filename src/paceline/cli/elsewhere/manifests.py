"""A job as YAML for Kubernetes: plain objects, or a JobSet.

It asks no cluster, and looks at nothing here: the script is in the image.
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Annotated, Any

import typer

from paceline.cli.run import run, settings
from paceline.config import JobConfig
from paceline.launch.job import require_utf8
from paceline.launch.manifests import (
    MOST_INDEXES,
    MOST_NAME,
    Kind,
    ManifestWish,
    manifest_of,
    needs_by_role,
    require_count,
    require_image,
    require_label,
    require_name,
    require_quantity,
    shared_place,
)
from paceline.transport.handshake import Secret

# Options of `run` that the coordinator is told as they are typed.
_OF_RUN = (
    *("is_module", "trainers", "ranks_per_trainer", "servers", "pace", "seed", "timeout"),
    *("first_batch", "checkpoint_every", "keep", "disk_wait", "plain", "plugin"),
)
_MOST_USER = 2**31 - 1


def write(  # noqa: PLR0913  (the command line has one parameter for each option)
    script: Annotated[
        str, typer.Argument(help="The training script in the image, or with -m a module.")
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Its own arguments; options too.")
    ] = None,
    *,
    kind: Kind,
    of_run: Mapping[str, Any],
    image: Annotated[
        str, typer.Option(help="Image with the script in its working folder, and paceline.")
    ],
    checkpoints: Annotated[
        str,
        typer.Option(
            help="URL of checkpoints, or claim:NAME/FOLDER, which all pods mount."
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="What the objects are called.", show_default="SCRIPT")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="Namespace of the objects.", show_default="kubectl's")
    ] = None,
    cpu: Annotated[
        str | None,
        typer.Option(
            help="Of each pod: 4, or trainer=4,server=2.",
            show_default="coordinator=1,server=2,trainer=4",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Of each pod: 8Gi, or trainer=8Gi,server=4Gi.",
            show_default="coordinator=2Gi,server=4Gi,trainer=8Gi",
        ),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(help="NVIDIA GPUs of each trainer.", show_default="0")
    ] = None,
    storage: Annotated[
        str | None, typer.Option(help="Size of the job folder.", show_default="10Gi")
    ] = None,
    storage_class: Annotated[
        str | None, typer.Option(help="Its storage.", show_default="the cluster's")
    ] = None,
    env_from: Annotated[
        str | None,
        typer.Option(help="A Secret that is there: its keys are variables of all pods."),
    ] = None,
    service_account: Annotated[
        str | None,
        typer.Option(help="ServiceAccount of the pods.", show_default="the namespace's"),
    ] = None,
    user: Annotated[
        int | None,
        typer.Option(help="Number of user and group in the pods.", show_default="1000"),
    ] = None,
) -> None:
    """Print a job as YAML for kubectl apply, with a fresh secret of its run in it."""
    place = shared_place(checkpoints)
    said = {field: value for field, value in settings(of_run).items() if value is not None}
    config = JobConfig(run="manifest", checkpoints=checkpoints, **said)
    words = [*_words(of_run), script, *(arguments or [])]
    for word in (*words, checkpoints):
        require_utf8("a word of the command", word)
    chosen: dict[str, Any] = {
        "gpus": require_count("--gpus", gpus or 0, 0, 1024),
        "namespace": _namespace(namespace),
        "storage": require_quantity("--storage", storage or "10Gi"),
        "storage_class": _name("--storage-class", storage_class),
        "env_from": _name("--env-from", env_from),
        "service_account": _name("--service-account", service_account),
        "user": require_count("--user", 1000 if user is None else user, 1, _MOST_USER),
        "is_plain": of_run["plain"],
    }
    wish = ManifestWish(
        require_label("--name", name or _named(script), MOST_NAME),
        require_image(image),
        place,
        tuple(words),
        require_count("--trainers", config.max_trainers, 1, MOST_INDEXES),
        require_count("--servers", config.servers, 1, MOST_INDEXES),
        needs_by_role(cpu, memory),
        config.ranks_per_trainer,
        **chosen,
    )
    sys.stdout.write(manifest_of(wish, kind, Secret.fresh()))


def _words(of_run: Mapping[str, Any]) -> list[str]:
    """Options of `run` as they are typed, those that others are told too left out."""
    words: list[str] = []
    for name, value in of_run.items():
        if name in {"is_module", "plain"} or value is None:
            continue
        option = f"--{name.replace('_', '-')}"
        for one in value if isinstance(value, list) else [value]:
            words += [option, str(one)]
    return [*words, "-m"] if of_run["is_module"] else words


def _named(script: str) -> str:
    """What a job is called after its script: ``my_train.py`` is ``my-train``."""
    stem = PurePath(script).name.removesuffix(".py").lower()
    return re.sub("[^a-z0-9]+", "-", stem).strip("-")[:MOST_NAME]


def _namespace(text: str | None) -> str:
    return require_label("--namespace", text, is_namespace=True) if text else ""


def _name(option: str, text: str | None) -> str:
    return "" if text is None else require_name(option, text)


def _command(kind: Kind, told: str) -> Callable[..., None]:
    """`write` for a kind, which takes options of `run`, too."""

    def command(**asked: Any) -> None:  # noqa: ANN401  (as the options say)
        of_run = {name: asked.pop(name) for name in _OF_RUN}
        write(**asked, kind=kind, of_run=of_run)

    own = inspect.signature(write).parameters
    theirs = inspect.signature(run).parameters
    asked = [one for name, one in own.items() if name not in {"kind", "of_run"}]
    asked += [theirs[name] for name in _OF_RUN]
    command.__signature__ = inspect.Signature(asked)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in asked}
    command.__doc__ = told
    return command


manifests = typer.Typer(
    name="manifests",
    help="A job as YAML for Kubernetes, which needs no operator of paceline's.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_AS_RUN = {"allow_interspersed_args": False}  # options behind the script belong to it
for _kind, _told in (
    ("k8s", "Print a job as plain objects of Kubernetes: kubectl apply -f -"),
    ("jobset", "Print a job as a JobSet, for a cluster that has its controller."),
):
    manifests.command(_kind, context_settings=_AS_RUN)(_command(_kind, _told))  # type: ignore[arg-type]
