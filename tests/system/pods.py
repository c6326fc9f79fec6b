"""Containers of a manifest as processes on machines of network namespaces.

What a kubelet does for a pod is done by hand: its own processes and mounts, the volumes at
their places, the environment and the command of the container, names that lead where the
manifest's Services say. A Job's loop is the test's: it starts what has ended again, or not.
"""

import base64
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml

from paceline.testing.machines import Machine

# Last /tmp: what is mounted comes from there.
SET_UP = """
set -e
mount -t tmpfs tmpfs /run
{mounts}
mount --bind {hosts} /etc/hosts
cd /run/image
mount -t tmpfs tmpfs /tmp
exec "$@"
"""


class Cluster:
    """Objects of a manifest; what is in volumes and behind names, kept in a folder."""

    def __init__(self, folder: Path, text: str, image: Path) -> None:
        """Nothing runs; ``image`` is the folder in which containers begin."""
        self.folder, self.image = folder, image
        self.objects = [found for found in yaml.safe_load_all(text) if found]
        self.hosts = folder / "hosts"
        self.hosts.write_text("127.0.0.1 localhost\n")
        self.pods: list[Pod] = []

    def spec(self, role: str) -> dict[str, Any]:
        """Of the pods of a role."""
        spec: dict[str, Any] = self._job(role)["template"]["spec"]
        return spec

    def count(self, role: str) -> int:
        """How many pods of a role there are to be."""
        number: int = self._job(role)["parallelism"]
        return number

    def start(self, role: str, machine: Machine) -> "Pod":
        """Start a pod of a role."""
        pod = Pod(self, role, machine, len(self.pods))
        self.pods.append(pod)
        return pod

    def lead(self, name: str, machine: Machine) -> None:
        """Let a name lead to a machine from now on, and nowhere else."""
        self.hosts.write_text(f"127.0.0.1 localhost\n{machine.ipv4} {name}\n")

    def source(self, volume: dict[str, Any]) -> Path | None:
        """The folder of a volume; None: it goes with the pod."""
        if "secret" in volume:
            return self._secret(volume["secret"])
        if "persistentVolumeClaim" in volume:
            place = self.folder / volume["persistentVolumeClaim"]["claimName"]
            place.mkdir(exist_ok=True)
            return place
        assert volume["emptyDir"] in ({}, {"medium": "Memory"})
        return None

    def close(self) -> None:
        """Leave nothing running."""
        for pod in self.pods:
            pod.kill()

    def _secret(self, wanted: dict[str, Any]) -> Path:
        name = wanted["secretName"]
        place = self.folder / f"secret-{name}"
        place.mkdir(exist_ok=True)
        [found] = (
            one
            for one in self.objects
            if one["kind"] == "Secret" and one["metadata"]["name"] == name
        )
        texts = dict(found.get("stringData", {}))
        for key, value in found.get("data", {}).items():
            texts[key] = base64.b64decode(value).decode()
        for key, text in texts.items():
            (place / key).unlink(missing_ok=True)
            (place / key).write_text(text)
            (place / key).chmod(wanted["defaultMode"])
        return place

    def _job(self, role: str) -> dict[str, Any]:
        """The JobSpec whose pods have a container of this name."""
        jobs = [one["spec"] for one in self.objects if one["kind"] == "Job"]
        for one in self.objects:
            if one["kind"] == "JobSet":
                jobs += [job["template"]["spec"] for job in one["spec"]["replicatedJobs"]]
        [found] = (
            job for job in jobs if job["template"]["spec"]["containers"][0]["name"] == role
        )
        return found


class Pod:
    """A container that runs, in a process namespace of its own."""

    def __init__(self, cluster: Cluster, role: str, machine: Machine, number: int) -> None:
        """Start it."""
        [container] = cluster.spec(role)["containers"]
        self.log = cluster.folder / f"{role}-{number}.txt"
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            **{one["name"]: expanded(one["value"]) for one in container["env"]},
        }
        words = [expanded(word) for word in container["command"]]
        apart = ["unshare", "--mount", "--pid", "--uts", "--fork", "--mount-proc"]
        script = _set_up(cluster, role)
        self.process = machine.popen(
            [*apart, "--kill-child", "sh", "-c", script, "sh", *words],
            self.log,
            env=environment,
        )

    def said(self) -> str:
        """What it has said so far."""
        return self.log.read_text()

    def first(self) -> psutil.Process:
        """The first process of the container."""
        [found] = psutil.Process(self.process.pid).children()
        return found

    def stop(self) -> None:
        """Tell it to stop, as the kubelet does first."""
        self.first().send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a word: all that is in it goes with its first process."""
        self.process.kill()
        self.process.wait(30.0)

    def wait(self, timeout_s: float) -> int:
        """Its exit code, once it has ended."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(self.said()) from error


def expanded(text: str) -> str:
    """As a kubelet reads a word: ``$(NAME)`` is a variable, and ``$$`` a ``$``."""
    assert not re.search(r"(?<!\$)(\$\$)*\$\(", text), f"a variable stands in {text}"
    return text.replace("$$", "$")


def _set_up(cluster: Cluster, role: str) -> str:
    spec = cluster.spec(role)
    sources = {one["name"]: cluster.source(one) for one in spec["volumes"]}
    lines = [_bound(cluster.image, "/run/image", is_read_only=True)]
    for mount in spec["containers"][0]["volumeMounts"]:
        place, source = mount["mountPath"], sources[mount["name"]]
        if source is None:
            lines.append(f"mkdir -p {place}\nmount -t tmpfs tmpfs {place}")
        else:
            lines.append(_bound(source, place, is_read_only=mount.get("readOnly", False)))
    return SET_UP.format(mounts="\n".join(lines), hosts=cluster.hosts)


def _bound(source: Path, place: str, *, is_read_only: bool) -> str:
    bound = f"mkdir -p {place}\nmount --bind {source} {place}"
    return f"{bound}\nmount -o remount,bind,ro {place}" if is_read_only else bound


def paceline(words: Sequence[str]) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "paceline.cli.main", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
