"""How a machine of torchrun takes part in a job: it leads one, or joins who leads.

Waits: for the job's end. The main thread.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import structs
from rich.console import Console

from paceline.errors import Interrupted, JobFailed, PacelineError
from paceline.launch.engines import NoEngine
from paceline.launch.guests import GuestHall, JobOver
from paceline.launch.hosts import HostPlan, Listening, wait_host, wait_own_host
from paceline.launch.job import (
    RUNS,
    JobDir,
    OwnWish,
    UserScript,
    candidates,
    file_of,
    fresh_job_dir,
    given_secret,
    own_listening,
)
from paceline.launch.local import LocalRun, Reach, fresh_run_id, wait_local_run
from paceline.launch.torchrun.claim import ClaimStore, Leading
from paceline.launch.torchrun.found import JOIN, Torchrun
from paceline.launch.torchrun.wishes import Wishes
from paceline.machine import machine_name, num_cores
from paceline.timing import Clock, wall_time_s
from paceline.transport.address import TcpAddress, TcpListening, parse_address
from paceline.transport.handshake import Secret
from paceline.watch.progress import Lines
from paceline.watch.summary import Ending, tell_ending
from paceline.watch.table import summary_table

JOIN_WITHIN_S = 120.0
ORPHAN_AFTER_S = 60.0  # then who leads is looked for anew
MOST_LOSSES = 3  # of a machine, after each of which it joins anew


class TakingPart(NamedTuple):
    """What a machine takes part with.

    ``led``: a file that says which job of which torchrun this machine leads, as long as it
    has not ended.
    """

    torchrun: Torchrun
    wishes: Wishes
    script: UserScript
    environment: Mapping[str, str]  # of servers
    led: Path
    guests: GuestHall
    show: Lines
    clock: Clock

    def wait_over(self) -> JobOver:
        """Take part until the job has ended; how it has.

        Raises:
            UsageError, JobFailed, StoreError, Interrupted: it cannot take part, or not any
                longer.
        """
        secret = given_secret(os.environ)
        if self.wishes.join is not None:
            if secret is None:
                raise JobFailed(
                    f"{JOIN}: the launcher there has a secret: name a file that holds it "
                    "with PACELINE_SECRET_FILE, on all machines"
                )
            return self._follow(self.wishes.join, secret, is_plain=self.wishes.is_plain)
        where = self.torchrun.store
        if where is None:
            return self._lead(None)
        store = ClaimStore(where, self.torchrun.run, self.clock)
        if store.claim() or self.job_led() is not None:
            return self._lead_all(store, where, secret)
        return self._follow_who_leads(store, secret)

    def _lead_all(
        self, store: ClaimStore, where: TcpAddress, secret: Secret | None
    ) -> JobOver:
        """Lead the job of several machines, and tell the others where, and how it ends."""
        over = JobOver("the machine that led has failed: see what it said", 1)
        try:
            plain = self.wishes.is_plain
            own = self._own(where, is_plain=plain)
            machines = min(self.torchrun.machines, self.wishes.servers)
            ports = own.first, own.last
            at = own._replace(first=0, last=0)

            def tell(join: str, made: Secret) -> None:
                told = made.text() if secret is None else ""
                store.tell(Leading("open", join, told, plain))

            come = NoEngine(machines, tell)
            over = self._lead(Listening(at, None, secret, come, plain, ports))
        except (PacelineError, Interrupted) as error:
            over = JobOver(f"the machine that led has failed: {error}", 1)
            raise
        finally:
            store.tell(Leading("over", text=over.text, status=over.status))
        return over

    def _lead(self, listening: Listening | None) -> JobOver:
        result = wait_local_run(
            self._run(),
            self.show,
            self.clock,
            environment=self.environment,
            reach=Reach(listening=listening, guests=self.guests),
        )
        Console(stderr=True, emoji=False).print(summary_table(result.summary))
        verdict = result.verdict
        told = tell_ending(verdict.ending.value, verdict.reason)
        if verdict.ending is not Ending.TRAINED:
            self.show.say(told)
        for said in result.said:
            self.show.say(said)
        return JobOver(f"the job is over: {told}", verdict.exit_code)

    def _run(self) -> LocalRun:
        """The job that begins; or goes on, where this machine led it and was killed."""
        config = self.wishes.config(fresh_run_id(), self.torchrun)
        led = self.job_led()
        if led is not None and led.config.exists():
            config = structs.replace(led.read_config(), run=config.run)
            return LocalRun(config, self.script, led, is_resumed=True)
        named = file_of(self.script)
        folder = self.wishes.folder or fresh_job_dir(RUNS, named, wall_time_s())
        self.led.write_text(f"{self.torchrun.nonce}\n{folder.absolute()}")
        return LocalRun(config, self.script, JobDir(folder))

    def job_led(self) -> JobDir | None:
        """What this machine led for this very torchrun; what for another is forgotten."""
        with suppress(FileNotFoundError):
            nonce, _, folder = self.led.read_text().partition("\n")
            if nonce == self.torchrun.nonce and folder:
                return JobDir(Path(folder))
            self.led.unlink()
        return None

    def _follow_who_leads(self, store: ClaimStore, secret: Secret | None) -> JobOver:
        """Be a host; if this machine is lost to the job, join anew while there is one."""
        losses = 0
        while True:
            told = store.wait_told()
            if told.state == "over":
                return JobOver(told.text, told.status)
            if told.secret:
                secret = Secret.parse(
                    told.secret, "what leads has put into torchrun's store"
                )
            if secret is None:
                raise JobFailed(
                    "the machine that leads was told a secret beforehand, and this one was "
                    "not: set PACELINE_SECRET_FILE on all machines"
                )
            launcher = parse_address(f"tcp:{told.address}")
            assert isinstance(launcher, TcpAddress)
            try:
                over = self._follow(launcher, secret, is_plain=told.is_plain)
            except JobFailed as error:
                losses += 1
                if losses > MOST_LOSSES:
                    raise
                self.show.say(f"{error}; this machine joins anew, if there is a job")
                continue
            last = store.wait_over()
            return over if last is None else JobOver(last.text, last.status)

    def _follow(self, launcher: TcpAddress, secret: Secret, *, is_plain: bool) -> JobOver:
        """Be a host of the launcher's job."""
        plan = HostPlan(
            launcher=launcher,
            own=self._own(launcher, is_plain=is_plain),
            name=machine_name(),
            cores=num_cores(),
            secret=secret,
            join_within_s=JOIN_WITHIN_S,
            orphan_after_s=ORPHAN_AFTER_S,
            is_plain=is_plain,
            guests=self.guests,
        )
        over = wait_host(plan, self.show.say, self.clock, self.environment)
        self.show.say(over.text)
        return over

    def _own(self, towards: TcpAddress, *, is_plain: bool) -> TcpListening:
        """Where the listeners of this machine are."""
        wish = OwnWish.of(None, None, None, os.environ)
        say, clock = self.show.say, self.clock

        def way() -> str:
            return wait_own_host(towards, JOIN_WITHIN_S, say, clock)

        return own_listening(wish, towards, way, candidates(), is_plain=is_plain)
