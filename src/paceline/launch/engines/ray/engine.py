"""A Ray cluster as an engine: from what the user has said to actors.

Waits: `connect_ray` and `ray_door`, for Ray.
"""

from collections.abc import Callable, Mapping
from typing import final

from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.launch.engines.engine import BroughtJob
from paceline.launch.engines.ray.cluster import NAMESPACE, RayCluster, connect
from paceline.launch.engines.ray.door import PREFIX, TELL_S, LetIn
from paceline.launch.engines.ray.hosts import RayHosts
from paceline.launch.engines.ray.wish import RayWish, asked_hosts, num_server_hosts
from paceline.launch.job import JobDoor, tcp_address
from paceline.transport.address import TcpListening
from paceline.transport.handshake import Secret


@final
class RayEngine:
    """Hosts as actors of a cluster: see `Engine`."""

    flag = "--engine ray"
    leads_only = True

    def __init__(self, wish: RayWish, cluster: RayCluster) -> None:
        """Nothing is asked for yet; the cluster is left when what is brought is closed."""
        self._wish, self._cluster = wish, cluster
        self._machines = max(1, cluster.num_machines())

    def own_address(self, ports: tuple[int, int]) -> TcpListening:
        """See `Engine`: where Ray itself finds this machine."""
        return TcpListening(self._cluster.node_ip, self._cluster.node_ip, *ports)

    def num_machines(self, config: JobConfig | None) -> int:
        """See `Engine`: hosts, of which several may be on one machine."""
        if config is None:
            return self._machines
        servers = num_server_hosts(config, self._machines)
        return servers + self._wish.num_trainer_hosts(config.trainers)

    def options(self) -> list[str]:
        """See `Engine`."""
        return self._wish.options()

    def bring(self, job: BroughtJob) -> RayHosts:
        """See `Engine`; `UsageError`: there is no job."""
        if job.config is None:
            raise UsageError(
                "--engine ray belongs to paceline run: machines of a cluster are looked at "
                "where paceline host is typed on each"
            )
        hosts = asked_hosts(self._wish, job.config, self._machines)
        return RayHosts(job, hosts, self._cluster, is_uploaded=self._wish.is_uploaded)


def connect_ray(wish: RayWish, say: Callable[[str], None]) -> RayEngine:
    """Connect to the cluster; ``say`` hears what it is given.

    Raises:
        UsageError: there is none, Ray is not installed, or the folder has too much.
    """
    return RayEngine(wish, connect(is_uploaded=wish.is_uploaded, say=say))


def ray_door(name: str, environment: Mapping[str, str]) -> JobDoor:
    """The job of a name on the cluster; this process is no part of it afterwards.

    Raises:
        UsageError: there is no cluster, or no such job.
    """
    cluster = connect(is_uploaded=False, say=lambda _: None, environment=environment)
    try:
        told = LetIn(*cluster.told_by(f"{PREFIX}{name}", NAMESPACE, TELL_S))
    except LookupError as error:
        there = ", ".join(f"ray:{one}" for one in sorted(cluster.named(PREFIX)))
        raise UsageError(
            f"--join ray:{name}: no such job runs on this cluster; {there or 'none'} does"
        ) from error
    finally:
        cluster.close()
    return JobDoor(
        tcp_address("--join", told.join),
        Secret.parse(told.secret, f"ray:{name}"),
        told.is_plain,
    )
