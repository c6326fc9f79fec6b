"""What the user holds: `paceline.connect` returns a `Session`.

::

    share      parameters and optimizer move to the servers         (sharing, carrier)
    batches    this trainer's share of the data                     (loop)
    log, save, stop, once, records                                  asked of the coordinator

A script that is started again begins at the top: its n-th `share` and its n-th `batches`
are the job's n-th part and stage.

Waits: for coordinator and servers, with `timeout_s` for each reply; a coordinator may be
away for a while, and servers as long as the coordinator expects them back. One thread
calls, and never a forked process.
"""

import os
import platform
from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Self, final

import torch
from torch import nn

from paceline.config import Adagrad, Pace, RowInit, RowOptimizer, Uniform
from paceline.data.source import open_source
from paceline.data.split import check_stage, default_task_size
from paceline.errors import PacelineError, Preempted, UsageError
from paceline.messages import (
    AskRecords,
    Claimed,
    ClaimOnce,
    Leave,
    Log,
    Message,
    Records,
    StageSpec,
    Stop,
)
from paceline.timing import Clock
from paceline.trainer.carrier import Carrier, Scaled
from paceline.trainer.client import ConnectCoordinator, ConnectServer, Courier, Driver
from paceline.trainer.embedding import Embedding, Mode
from paceline.trainer.heartbeat import Heartbeat
from paceline.trainer.logbook import Logbook
from paceline.trainer.loop import deliver
from paceline.trainer.optimizer import SharedOptimizer
from paceline.trainer.protocol import TrainerProtocol
from paceline.trainer.sharing import Sharing

PATIENCE = 6  # time-outs for which the coordinator may be away
_DEFAULT_OPTIMIZER = Adagrad(lr=0.05)
_DEFAULT_INIT = Uniform(0.05)


@final
class Session:
    """One trainer's membership of a job."""

    def __init__(
        self,
        trainer: str,
        coordinator: ConnectCoordinator,
        server: ConnectServer,
        clock: Clock,
        *,
        timeout_s: float,
    ) -> None:
        """Join the job; returns when all its servers are there.

        Args:
            trainer: role id.
            coordinator: incarnation -> a fresh connection to the coordinator.
            server: (address, incarnation) -> a fresh connection to a server.
            clock: for deadlines.
            timeout_s: a reply that takes longer is asked for again.

        Raises:
            JobFailed: there is no coordinator.
        """
        self._pid = os.getpid()
        self._clock, self._timeout_s = clock, timeout_s
        self._protocol = TrainerProtocol(
            trainer, self._pid, platform.node(), patience_s=PATIENCE * timeout_s
        )
        courier = Courier(coordinator, server)
        self._driver = Driver(self._protocol, courier, clock, timeout_s)
        self._carrier = Carrier(self._protocol, self._driver)
        self._logbook = Logbook()
        self._sharing = Sharing(self._carrier)
        self._num_stages = 0
        self._num_saves = 0
        self._loop: Generator[Any, None, None] | None = None  # the open one
        self._is_closed = False
        try:
            self._carrier.run(self._protocol.join())
        except BaseException:
            self._driver.close()
            raise
        joined = self._protocol.joined
        assert joined is not None
        self._pace = joined.pace
        self._heartbeat = Heartbeat(self._driver, clock, joined.beat_s)
        self._heartbeat.start()

    # ------------------------------------------------------------ what is shared

    def share(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        pace: Pace | None = None,
    ) -> SharedOptimizer:
        """Move a model's parameters, its embeddings and the optimizer to the servers.

        The first trainer to come uploads its values, everyone sees them afterwards; if it
        is lost before that, the next one uploads. Frozen parameters stay here: they must
        be the same on every trainer. The optimizer returned has the same parameter groups
        as ``optimizer``.

        Args:
            model: with the parameters of ``optimizer``, `Embedding` modules, or both.
            optimizer: one of `torch.optim`'s elementwise optimizers, before its first
                step; None for a model of embeddings only.
            pace: how tightly trainers march on this part; the job's if None.

        Raises:
            UsageError: the model and its optimizer cannot be shared, and why; inside a
                loop; or the job's n-th part differs from this one.
            JobFailed: the job as a whole cannot go on.
        """
        self._check_open()
        if self._loop is not None:
            raise UsageError("share: share the whole model before the loop")
        parts = self._sharing.share(model, optimizer, pace or self._pace)
        self._carrier.tracker.add_model(parts[0], model, optimizer)

        def step(scaled: Scaled) -> None:
            self._check_open()
            if self._loop is None:
                raise UsageError(
                    "step() without a batch: a step belongs to the batches of a loop over "
                    "session.batches, and none is open"
                )
            self._carrier.step_all(parts, scaled=scaled)

        shared = SharedOptimizer(optimizer, step, lambda: self._sharing.drop_rows(parts))
        self._sharing.show_rows(model, shared.param_groups[-1]["params"])
        return shared

    def embedding(
        self,
        name: str,
        dim: int,
        *,
        optimizer: RowOptimizer = _DEFAULT_OPTIMIZER,
        init: RowInit = _DEFAULT_INIT,
        mode: Mode | None = None,
        padding_idx: int | None = None,
    ) -> Embedding:
        """An `Embedding`, shared at once as a part of its own.

        A model that holds it steps it, once the model is shared.

        Raises:
            UsageError: an argument is out of range, or the name is another table's.
            JobFailed: the job as a whole cannot go on.
        """
        module = Embedding(
            name, dim, optimizer=optimizer, init=init, mode=mode, padding_idx=padding_idx
        )
        self.share(module)
        return module

    def track(self, **objects: object) -> None:
        """Let the state of the user's own objects survive: scheduler, GradScaler, EMA.

        One trainer's state goes into every checkpoint. A trainer that joins, and everyone
        after a return to a checkpoint, loads it before its next batch. Buffers of a shared
        model (BatchNorm) are tracked without being named.

        If the last trainer that knows their state is lost, all go back to the last
        checkpoint together.

        Args:
            objects: anything with ``state_dict`` and ``load_state_dict``, by names that
                are the same on every trainer.

        Raises:
            UsageError: inside a loop; a name is taken; or an object's state holds more
                than numbers, text, containers, tensors and arrays.
        """
        self._check_open()
        if self._loop is not None:
            raise UsageError("track: track objects before the loop")
        for name, tracked in objects.items():
            self._carrier.tracker.add(name, tracked)

    # ------------------------------------------------------------ the loop

    def batches(  # noqa: PLR0913  (the public signature; all but two are named)
        self,
        dataset: Any,  # noqa: ANN401  (whatever a user calls a data set)
        batch_size: int,
        *,
        epochs: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        task_size: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        workers: int = 0,
    ) -> Iterator[Any]:
        """This trainer's share of the batches, leased from the coordinator.

        A batch counts when the first ``step()`` after it is acknowledged. The end of the
        loop flushes what was accumulated; ``break`` hands back what no step has used. The
        loop ends on every trainer when the last epoch is over for all: one with nothing to
        do waits, since a lost trainer's task may come to it. After a return to a cut the
        loop goes on with what is leased then; what was accumulated is dropped. A data set
        that raises fails the task it was read for, not the loop.

        Args:
            dataset: map-style data set, tensor, tuple of tensors, Hugging Face data set, or
                a source of `paceline.data`; the same on every trainer.
            batch_size: records of a batch.
            epochs: runs over the data.
            shuffle: in an order of its own in every epoch, the same for all trainers.
            seed: of that order.
            task_size: records of a task, a multiple of ``batch_size``.
            collate_fn: list of items -> batch; torch's default if None.
            workers: processes, forked from this one, that read ahead within a task; the
                order of batches is the same. Random numbers that the data set draws are
                then a function of ``seed`` and batch. With 0 the loop itself reads.

        Raises:
            UsageError: an argument is out of range, nothing is shared yet, or another loop
                is open.
            JobFailed: while iterating, the job as a whole cannot go on.
        """
        self._check_open()
        if not self._carrier.numbers:
            raise UsageError("batches: share a model first (session.share)")
        if workers < 0:
            raise UsageError(f"batches: workers must be >= 0, got {workers}")
        source = open_source(dataset, collate_fn)
        if task_size is None:
            task_size = default_task_size(len(source), batch_size)
        spec = StageSpec(
            stage=self._num_stages,
            records=len(source),
            batch_size=batch_size,
            task_size=task_size,
            epochs=epochs,
            shuffle=shuffle,
            seed=seed,
            fingerprint=source.fingerprint(),
            tracked=self._carrier.tracker.names,
        )
        check_stage(spec)
        self._carrier.tracker.begin()
        self._num_stages += 1
        return self._guarded(deliver(self._carrier, source, spec, workers))

    def _guarded(self, batches: Generator[Any, None, None]) -> Iterator[Any]:
        self._check_open()
        if self._loop is not None:
            raise UsageError("batches: a loop is open already; end it or close() it first")
        self._loop = batches
        try:
            yield from batches
        finally:
            self._loop = None
            if not self._is_closed and os.getpid() == self._pid:
                self._send_log()

    # ------------------------------------------------------------ anything else

    def log(self, **numbers: object) -> None:
        """Note numbers for progress, events and summary; the last value of a name wins.

        Cheap: at most 20 messages a second, and none is lost at the end of a loop. A value
        that is not finite becomes null.

        Raises:
            UsageError: a value is no number.
        """
        self._check_open()
        if self._logbook.add(numbers, self._clock.now_s()):
            self._send_log()

    def once(self, name: str) -> bool:
        """True in exactly one trainer of the job, for good.

        If that trainer is lost, its successor gets True again: what it guards must be
        repeatable.
        """
        claimed = self._ask(ClaimOnce(incarnation=0, timeline=0, name=name))
        assert isinstance(claimed, Claimed)
        return claimed.mine

    def stop(self, reason: str) -> None:
        """End the running loop, and all later ones, on every trainer.

        What was stepped counts; it survives the loss of anyone.
        """
        self._ask(Stop(incarnation=0, timeline=0, reason=reason))

    def save(self) -> None:
        """Take a checkpoint; when this returns, a cut begun after the call is committed."""
        self._check_open()
        self._num_saves += 1
        self._carrier.run(self._protocol.save(self._num_saves))

    @property
    def records(self) -> int:
        """Acknowledged records of the job so far; fewer after a return to a cut."""
        answer = self._ask(AskRecords(incarnation=0, timeline=0))
        assert isinstance(answer, Records)
        return answer.records

    @property
    def refused_nonfinite(self) -> int:
        """Pushes of this trainer that went without their gradients: not all were finite."""
        return sum(numbers.refused for numbers in self._carrier.numbers.values())

    def close(self) -> None:
        """Leave the job cleanly: an open loop is left, the last numbers are sent.

        Raises nothing if the job is gone already. May be repeated.
        """
        if self._is_closed or os.getpid() != self._pid:
            return
        try:
            if self._loop is not None:
                self.leave_soon("the session is closed")  # in the middle: no `break`
                self._loop.close()
            self._send_log()
        except (PacelineError, ValueError):
            pass  # the job is gone, or another thread is in the loop: it will be lost
        finally:
            self._is_closed = True
            self._heartbeat.stop(self._timeout_s)
            told = self._protocol.leaving or self._protocol.must_begin_again
            self._tell_leave(is_done=told is None)
            self._driver.close()

    def leave_soon(self, reason: str) -> None:
        """End the loop at its next batch, by `Preempted`; any thread may call."""
        self._protocol.leaving = reason

    def abandon(self) -> None:
        """Give up membership, whatever the loop does; any thread may call."""
        self._tell_leave(is_done=False)

    @property
    def must_begin_again(self) -> str | None:
        """Why the script must be started again: it has left a loop whose end was undone."""
        return self._protocol.must_begin_again

    def is_idle(self) -> bool:
        """Whether nothing of the job is held here: no loop is open, nothing is asked."""
        return self._loop is None and not self._driver.waiting_for

    def __enter__(self) -> Self:
        """The session itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    # ------------------------------------------------------------ within

    def _tell_leave(self, *, is_done: bool) -> None:
        protocol = self._protocol
        who = (protocol.incarnation, protocol.timeline)
        self._driver.tell(Leave(incarnation=who[0], timeline=who[1], is_done=is_done))

    def _send_log(self) -> None:
        numbers = self._logbook.take(self._clock.now_s())
        if numbers:
            self._ask(Log(incarnation=0, timeline=0, numbers=numbers))

    def _ask(self, message: Message) -> Message:
        self._check_open()
        return self._carrier.ask(message)

    def _check_open(self) -> None:
        if self._is_closed:
            raise UsageError("the session is closed; connect again")
        if self.must_begin_again is not None:
            raise Preempted(self.must_begin_again)
