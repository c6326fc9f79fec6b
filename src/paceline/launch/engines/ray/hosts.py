"""The actors of a job: asked for, looked at, started again, told to leave, ended.

::

    start    places for servers, then all actors; they come as the cluster has room
    look     each is asked how its agent is, again and again
    drain    who is on a machine that is to go is told to leave, and comes elsewhere
    close    all are ended, and the cluster is left

Waits: a thread, for answers; `RayHosts.close`, with bounds.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import final

from paceline.launch.engines.bringing import Watching
from paceline.launch.engines.children import host_words
from paceline.launch.engines.engine import BroughtJob
from paceline.launch.engines.ray.agent import AgentSays
from paceline.launch.engines.ray.cluster import Answer, Dead, Handle, NoAnswer, RayCluster
from paceline.launch.engines.ray.door import LetIn
from paceline.launch.engines.ray.standing import Standing, WaitingPlaces, who_yields
from paceline.launch.engines.ray.wish import RayHost, server_host
from paceline.launch.processes import describe_exit
from paceline.timing import Deadline

ANSWER_WITHIN_S = 2.0  # an actor that has nothing to tell
LOOK_EVERY_S = 0.5
DRAINS_EVERY_S = 3.0
PLACES_EVERY_S = 5.0
LEAVE_S = 3.0  # hosts have been told that the job is over


@final
class RayHosts(Watching):
    """Hosts of a job that Ray places: see `Brought`."""

    def __init__(
        self,
        job: BroughtJob,
        hosts: Sequence[RayHost],
        cluster: RayCluster,
        *,
        is_uploaded: bool,
    ) -> None:
        """Nothing is asked for; with ``is_uploaded`` machines have the working folder."""
        assert job.config is not None, "the engine belongs to a run"
        super().__init__(job, len(hosts), "hosts")
        self._asked_hosts, self._cluster = hosts, cluster
        self._folder = None if is_uploaded else str(Path.cwd())
        self._prefix = f"paceline/{job.config.run}"
        self._num_servers = job.config.servers
        self._join = ""
        self._actors: dict[
            str, Handle
        ] = {}  # the thread's, until it is joined; as the next
        self._groups: dict[str, Handle] = {}  # None: its place is of no group
        self._standings: dict[str, Standing] = {}
        self._calls: dict[Handle, str] = {}  # {what was asked: the name of the host}
        self._held: list[RayHost] = []  # asked for when servers have their places
        self._pending_s = job.clock.now_s()  # since when servers have no place
        self._waiting = WaitingPlaces()
        self._drains_by = self._places_by = Deadline(job.clock, 0.0)
        self._num_server_hosts = sum(host.has_servers for host in hosts)

    def start(self, join: str) -> None:
        """See `Brought`."""
        self._join = join
        servers = [host for host in self._asked_hosts if host.has_servers]
        group = self._cluster.reserve(servers)
        for host in self._asked_hosts:
            self._start(host, group if host.has_servers else None)
        others = len(self._asked_hosts) - len(servers)
        self._job.say(
            f"paceline: Ray is asked for {_counted(len(servers))} for servers and {others} "
            f"for trainers; they are the actors {self._prefix}/..."
        )
        if self._num_servers > len(servers):
            self._job.say(
                f"paceline: {self._num_servers} servers go to {_counted(len(servers))}, "
                "since no more machines of the cluster have CPUs now; those that come "
                "later are for trainers"
            )
        told = LetIn(join, self._job.secret.text(), "--plain" in self._job.words)
        name = self._cluster.open_door(self._job.folder.path.name, told)
        self._job.say(
            f"paceline: from any machine of the cluster: paceline status --join ray:{name}"
        )
        self._thread.start()

    def close(self) -> None:
        """See `Brought`: actors that stay are ended, and their agents with them."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(LEAVE_S)
        if self._thread.is_alive():  # Ray answers nobody: actors end with this process
            return
        with suppress(Exception):  # where Ray is away, its actors end by themselves
            self._wait_gone()
        for actor in self._actors.values():
            with suppress(Exception):
                self._cluster.end(actor)
        with suppress(Exception):
            self._cluster.close()

    def _wait_gone(self) -> None:
        """Wait for agents, which have been told that the job is over."""
        deadline = Deadline(self._job.clock, LEAVE_S)
        while not deadline.is_over() and any(
            one.state in {"there", "leaving"} for one in self._standings.values()
        ):
            self._ask()
            for name, answer in self._answers(min(LOOK_EVERY_S, deadline.remaining_s())):
                if isinstance(answer, Dead | NoAnswer) or answer.status is not None:
                    self._standings[name].state = "over"

    def _start(self, host: RayHost, group: Handle) -> None:
        words = host_words(self._join, (*self._job.words, *host.words), host.name)[1:]
        arguments = (words, self._job.secret.text(), self._folder, host.threads)
        name = f"{self._prefix}/{host.name}"
        self._groups[host.name] = group
        self._actors[host.name] = self._cluster.start(name, host, group, arguments)
        self._standings[host.name] = Standing(host, self._job.clock.now_s())

    def _watch(self) -> None:
        told = ""
        while not self._over.is_set():
            try:
                self._look()
                told = ""
            except Exception as error:  # noqa: BLE001  (Ray is away: the job goes on)
                if (why := f"{type(error).__name__}: {error}") != told:
                    self._job.say(f"Ray does not answer, and is asked again: {why}")
                told = why
                self._over.wait(ANSWER_WITHIN_S)

    def _look(self) -> None:
        self._ask()
        for name, answer in self._answers(LOOK_EVERY_S):
            if self._over.is_set():
                return
            self._answered(name, answer)
        if not self._calls:
            self._over.wait(LOOK_EVERY_S)
        if self._drains_by.is_over():
            self._drains_by = Deadline(self._job.clock, DRAINS_EVERY_S)
            self._drain()
        if self._places_by.is_over():
            self._places_by = Deadline(self._job.clock, PLACES_EVERY_S)
            self._look_for_places(self._cluster.why_no_place())

    def _look_for_places(self, why: str) -> None:
        """``why`` servers have none; empty: they do."""
        now, hosts = self._job.clock.now_s(), list(self._standings.values())
        if (said := self._waiting.tell(hosts, why, now)) is not None:
            self._job.say(said)
        if not (why and any(o.host.has_servers and o.state == "waiting" for o in hosts)):
            self._pending_s = now
            while self._held:
                self._start(self._held[0], None)
                del self._held[0]
        elif (one := who_yields(hosts, now - self._pending_s)) is not None:
            self._job.say(f"{one.host.name} gives its place to servers, which have none")
            one.leaves(yields=True)

    def _ask(self) -> None:
        now, asked = self._job.clock.now_s(), set(self._calls.values())
        for name, one in self._standings.items():
            if name in asked or one.is_done or now < one.due_s:
                continue
            if one.is_to_restart:
                self._cluster.restart(self._actors[name])
                one.restarts(now)
            else:
                call = self._cluster.look(
                    self._actors[name], ANSWER_WITHIN_S, is_to_leave=one.state == "leaving"
                )
                self._calls[call] = name

    def _answers(self, timeout_s: float) -> list[tuple[str, Answer]]:
        come = self._cluster.answers(list(self._calls), timeout_s)
        return [(self._calls.pop(call), answer) for call, answer in come]

    def _answered(self, name: str, answer: Answer) -> None:
        one, now = self._standings[name], self._job.clock.now_s()
        if isinstance(answer, Dead):
            one.state = "gone"
            self._gone(f"{name} is gone: {answer.why}")
        elif isinstance(answer, NoAnswer):
            if one.unreached(now):
                self._job.say(f"{name} does not answer: Ray is to start it again")
        elif answer.status is None:
            one.runs(answer.node, now)
        else:
            self._agent_ended(one, answer, now)

    def _agent_ended(self, one: Standing, says: AgentSays, now: float) -> None:
        assert says.status is not None
        name, was_leaving = one.host.name, one.state == "leaving"
        following = one.ended(says.status, now)
        if following == "nothing":
            return
        last = f": {says.words[-1]}" if says.words else ""
        told = f"the agent of {name} has ended with {describe_exit(says.status)}{last}"
        if following == "gone":
            self._cluster.end(self._actors[name])
            self._gone("\n".join([f"{told}; it said:", *says.words]))
            return
        if following in {"elsewhere", "held"}:
            self._held += [one.host] if following == "held" else []
            self._drop(name)
        elif not was_leaving:
            self._job.say(f"{told}; it is started again")

    def _drop(self, name: str) -> None:
        """End a host, of which nothing is heard any more."""
        self._calls = {call: of for call, of in self._calls.items() if of != name}
        del self._standings[name]
        actor, group = self._actors.pop(name), self._groups.pop(name)
        self._cluster.end(actor)
        if group is not None and group not in self._groups.values():
            self._cluster.give_back(group)

    def _drain(self) -> None:
        """Have those leave whose machine is to go; servers have another place first."""
        draining = self._cluster.draining()
        for one in [s for s in self._standings.values() if s.state == "there"]:
            if one.node not in draining:
                continue
            name = one.host.name
            one.leaves()
            self._job.say(f"{name} is told to leave: Ray drains its machine")
            if one.host.has_servers:
                host = server_host(self._num_server_hosts, 0)
                self._num_server_hosts += 1
                self._start(host, self._cluster.reserve([host]))


def _counted(hosts: int) -> str:
    return "1 host" if hosts == 1 else f"{hosts} hosts"
