"""Templates of manifests, and what stands in their gaps.

A template is YAML with comments for whoever reads what comes out. ``${gap}`` alone on a
line is replaced by lines, indented as it is, or by nothing. Whatever users say freely
stands in quotes (`quoted`); the rest has been checked, and is a name or a number.

Pure, but for the templates, which are files of this package.
"""

import importlib.resources
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from functools import cache
from string import Template
from typing import Final, Literal

from paceline.launch.manifests.wish import ROLES, ManifestWish
from paceline.transport.handshake import Secret

Kind = Literal["k8s", "jobset"]

FIRST_PORT: Final = 7070
LAST_PORT: Final = 7079  # a role and its host, and who has not let go of a port yet
FOLDER: Final = "/run/paceline"  # whatever is mounted lies in it
# The coordinator: longer than leaving and a last checkpoint may take.
_GRACE_S: Final = {"coordinator": 90, "server": 60, "trainer": 60}
_GAP = re.compile(r"(\s*)\$\{(\w+)\}")
# Printable in JSON, and not in YAML; or ends of lines there.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

_TOLERATIONS: Final = """\
# Who is on a node that answers nobody is missed by the others after --timeout, and is to
# be replaced sooner than after the usual 300 s.
tolerations:
  - key: node.kubernetes.io/unreachable
    operator: Exists
    effect: NoExecute
    tolerationSeconds: 30
  - key: node.kubernetes.io/not-ready
    operator: Exists
    effect: NoExecute
    tolerationSeconds: 30"""
_SPREAD: Final = """\
# As few of the servers as can be are lost with a node.
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        ${labels}
        app.kubernetes.io/component: server"""
_SHARED_MEMORY: Final = """\
# What loaders of data share counts as memory of the pod; without it they have 64 MB.
- name: shared-memory
  emptyDir:
    medium: Memory"""


def manifest_of(wish: ManifestWish, kind: Kind, secret: Secret) -> str:
    """A job as objects of Kubernetes, in YAML."""
    gaps = {
        "name": wish.name,
        "namespace": f'namespace: "{wish.namespace}"' if wish.namespace else "",
        "labels": "app.kubernetes.io/name: paceline\n"
        f'app.kubernetes.io/instance: "{wish.name}"',
        "secret": secret.text(),
        "storage": wish.storage,
        "storage_class": _line("storageClassName", wish.storage_class),
        "least_servers": str(wish.servers - 1),
        "first_port": str(FIRST_PORT),
        "last_port": str(LAST_PORT),
    }
    for role, kind_of_job in zip(
        ROLES, ("coordinator", "servers", "trainers"), strict=True
    ):
        count = {"server": wish.servers, "trainer": wish.trainers}.get(role, 1)
        pod = filled(_template("pod"), gaps | _of_pod(wish, role, gaps))
        inner = gaps | {"count": str(count), "pod": pod}
        gaps[kind_of_job] = filled(_template(kind_of_job), inner)
    gaps["objects"] = filled(_template("objects"), gaps)
    return filled(_template(kind), gaps)


def command_of(wish: ManifestWish, role: str) -> list[str]:
    """What the container of a role runs."""
    plain = ["--plain"] if wish.is_plain else []
    if role != "coordinator":
        words = [
            "--join",
            f"{wish.name}:{FIRST_PORT}",
            "--ports",
            f"{FIRST_PORT}-{LAST_PORT}",
        ]
        words += ["--rejoin", "--join-within", "1h", "--folder", f"{FOLDER}/host/job"]
        return ["paceline", "role", role, *words, *plain]
    place = (
        f"{FOLDER}/checkpoints/{wish.place.path}" if wish.place.claim else wish.place.path
    )
    words = ["--listen", f":{FIRST_PORT}", "--advertise", wish.name]
    words += ["--ports", f"{FIRST_PORT + 1}-{LAST_PORT}"]
    words += ["--job-dir", f"{FOLDER}/volume/job", "--resume-if-begun"]
    words += ["--checkpoints", place, *plain, *wish.words]
    return ["paceline", "role", role, *words]


def quoted(text: str) -> str:
    """A text as a scalar of YAML, which nothing in it ends."""
    as_json = json.dumps(text, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", as_json)


def quoted_word(text: str) -> str:
    """A word of a command, in which Kubernetes would else replace ``$(NAME)``."""
    return quoted(text.replace("$", "$$"))


def filled(template: str, gaps: Mapping[str, str]) -> str:
    """A template without gaps.

    Raises:
        KeyError: nothing is known for one.
    """
    lines: list[str] = []
    for line in template.splitlines():
        if alone := _GAP.fullmatch(line):
            lines += textwrap.indent(gaps[alone[2]], alone[1]).splitlines()
        else:
            lines.append(Template(line).substitute(gaps))
    return "\n".join(lines) + "\n"


def _of_pod(wish: ManifestWish, role: str, gaps: Mapping[str, str]) -> dict[str, str]:
    needs, is_trainer = wish.needs[role], role == "trainer"
    mounts, volumes = _mounted(wish, role)
    return {
        "role": role,
        "folder": FOLDER,
        "image": quoted(wish.image),
        "command": _items(map(quoted_word, command_of(wish, role))),
        "grace_s": str(_GRACE_S[role]),
        "user": str(wish.user),
        "cpu": needs.cpu,
        "memory": needs.memory,
        "gpus": f"nvidia.com/gpu: {wish.gpus}" if is_trainer and wish.gpus else "",
        "env": _threads(wish) if is_trainer else "",
        "env_from": _env_from(wish.env_from),
        "service_account": _line("serviceAccountName", wish.service_account),
        "tolerations": "" if role == "coordinator" else _TOLERATIONS,
        "spread": filled(_SPREAD, gaps) if role == "server" else "",
        "mounts": "\n".join(mounts),
        "volumes": "\n".join(volumes),
    }


def _mounted(wish: ManifestWish, role: str) -> tuple[list[str], list[str]]:
    """What containers of a role mount, and the volumes for it."""
    mounts, volumes = [], []
    if role == "coordinator":
        mounts.append(f"- name: job\n  mountPath: {FOLDER}/volume")
        volumes.append(_claimed("job", wish.name))
    else:
        mounts.append(f"- name: host\n  mountPath: {FOLDER}/host")
        volumes.append(
            "# Logs, which the coordinator gets, too.\n- name: host\n  emptyDir: {}"
        )
    if wish.place.claim:
        mounts.append(f"- name: checkpoints\n  mountPath: {FOLDER}/checkpoints")
        volumes.append(_claimed("checkpoints", wish.place.claim))
    if role == "trainer":
        mounts.append("- name: shared-memory\n  mountPath: /dev/shm")
        volumes.append(_SHARED_MEMORY)
    return mounts, volumes


def _claimed(name: str, claim: str) -> str:
    return f'- name: {name}\n  persistentVolumeClaim:\n    claimName: "{claim}"'


def _threads(wish: ManifestWish) -> str:
    """A container sees all cores of its node, and would have a thread for each."""
    cpu = wish.needs["trainer"].cpu
    cores = float(cpu.removesuffix("m")) / (1000 if cpu.endswith("m") else 1)
    threads = max(1, int(cores / wish.ranks_per_trainer))
    told = "# It sees all cores of the node, and would compute with as many threads."
    return f'{told}\n- name: OMP_NUM_THREADS\n  value: "{threads}"'


def _env_from(secret: str) -> str:
    return f'envFrom:\n  - secretRef:\n      name: "{secret}"' if secret else ""


def _line(key: str, name: str) -> str:
    return f'{key}: "{name}"' if name else ""


def _items(scalars: "Sequence[str] | map[str]") -> str:
    return "\n".join(f"- {scalar}" for scalar in scalars)


@cache
def _template(name: str) -> str:
    package = importlib.resources.files("paceline.launch.manifests")
    return (package / f"{name}.yaml").read_text(encoding="utf-8")
