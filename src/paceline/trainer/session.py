"""What the user holds: `paceline.connect` returns a `Session`.

In a trainer of several processes each has a session; the first one's is the trainer's, the
others follow it (`paceline.trainer.seat`).

A script that is started again begins at the top: its n-th `share` is the
job's n-th part, its n-th `batches`, `evaluate` or `predict` the job's n-th stage.

Waits: for coordinator and servers, with `timeout_s` for each reply; a coordinator may be
away for a while, and servers as long as the coordinator expects them back. One thread
calls, and never a forked process.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Never, Self, final

import torch
from torch import nn

from paceline.config import Async, Pace, RowInit, RowOptimizer, Uniform
from paceline.pace.strategy import Strategy
from paceline.pace_specs.parsing import parse_any, parse_pace
from paceline.pace_specs.presets import AllReduce
from paceline.params.rows import Array
from paceline.trainer.engine import StepWarning
from paceline.trainer.evaluations import Evaluations
from paceline.trainer.loop import Batches, Cutting, Stages, check_lookahead, check_words
from paceline.trainer.membership import is_failure
from paceline.trainer.model import Factor, check_initialized, why_not_tracked
from paceline.trainer.peers import SEND_S, Event
from paceline.trainer.profiling import Profiles
from paceline.trainer.rows import Embedding, Mode
from paceline.trainer.seat import Presence, Seat
from paceline.trainer.share import SharedOptimizer, Sharing, check_arguments, share_between
from paceline.trainer.tables import Table, describe_table

_DEFAULT_INIT = Uniform(0.05)
_NO_SYNC = Async()


@final
class Session:
    """One trainer's membership of a job; ``trainer`` is its role id."""

    def __init__(self, seat: Seat, job_dir: Path) -> None:
        self._seat, self._calls = seat, seat.membership.calls
        self.trainer = seat.trainer
        self._sharing = Sharing(seat)
        self._stages = Stages(seat.size, seat.parts, seat.tracker)
        self._num_saves = 0
        self._has_warned = False  # of tracked schedulers
        asked = Evaluations(seat, self._stages, self._sharing.models)
        self.evaluate, self.predict = asked.evaluate, asked.predict
        self.profile = Profiles(seat, job_dir).profile

    def share(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        pace: Pace | AllReduce | Strategy | str | None = None,
        overlap: bool = False,
    ) -> SharedOptimizer:
        """Move a model's parameters, its embeddings and the optimizer to the servers.

        The first trainer to come uploads its values, everyone sees them afterwards; if it
        is lost before that, the next one uploads. Frozen parameters stay here: they must
        be the same on every trainer. The optimizer returned has the same parameter groups
        as ``optimizer``.

        Args:
            model: with the parameters of ``optimizer``, `Embedding` modules, or both.
            optimizer: one of `torch.optim`'s elementwise optimizers, before its first
                step; None for a model of embeddings only. Rows follow it, by its lazy
                twin, where their embedding names no optimizer.
            pace: how tightly trainers march on this part; the job's if None. A preset or
                its text, a `paceline.Strategy` of your own, or `AllReduce`: no servers.
            overlap: send gradients while backward still runs. The numbers are the same;
                gradients must not be changed in place before ``step()``.

        Raises:
            UsageError: the model and its optimizer cannot be shared (so), and why; inside
                a loop; or the job's n-th part differs from this one.
            JobFailed: the job as a whole cannot go on.
        """
        self._calls.check_idle("share", "share the whole model before the loop")
        check_arguments(model, optimizer)
        check_initialized(model)
        said = parse_any(pace) if isinstance(pace, str) else pace or self._seat.pace
        if isinstance(said, AllReduce):
            return share_between(self._seat, self._sharing, model, optimizer)
        is_said = pace is not None
        return self._sharing.share(model, optimizer, said, overlap=overlap, is_said=is_said)

    def unshare(self, model: nn.Module) -> None:
        """Let a shared model be the script's own again, with the values it has by now.

        Between two loops, at the same place in the script of every trainer: to share it
        anew, with other layers to train, another optimizer or another pace, or to go on
        without it. The state of its optimizer goes; what `share` returned steps no more.
        Buffers stay tracked. `paceline checkpoint export` takes what is shared by then.

        Raises:
            UsageError: in a loop; the model is not shared, holds embeddings that were
                shared with it, or trains by `AllReduce`; a trainer of several processes.
            JobFailed: the job as a whole cannot go on.
        """
        self._calls.check_idle("unshare", "call it between two loops")
        self._sharing.unshare(model)

    def set_values(self, model: nn.Module) -> None:
        """Let the values that a shared model has here be everybody's, as `share` did.

        For what the script changes by itself: a layer that begins anew, values that are
        loaded or clamped. Every trainer makes the call at the same place of its script,
        outside of loops; the values of the first that comes are taken, and when it returns,
        all have them, and a cut. The state of the optimizer stays. A call that the job has
        behind it changes nothing: a trainer that begins again sees what was trained since.
        In a loop it needs a job of one trainer, which needs it seldom: what that one
        changes is sent by itself.

        Raises:
            UsageError: the model is not shared, or moved by the trainers themselves; or in
                a loop of several trainers.
            JobFailed: the job as a whole cannot go on.
        """
        self._calls.check_open()
        self._sharing.set_values(model)

    def schedule(self, optimizer: torch.optim.Optimizer, factor: Factor) -> None:
        """Let learning rates follow the records that the whole job has trained.

        From here on each group's rate is its present one times ``factor(records)``, of
        acknowledged records of the job (of all loops) as of the last round; where there are
        none, as of some 50 ms ago. It means the same in every pace, for any number of
        trainers, and after a return to a cut. Nothing steps or tracks it.

        Raises:
            UsageError: the optimizer has a schedule; or a factor is no finite number >= 0.
        """
        self._sharing.schedules.add(optimizer, factor)

    def embedding(
        self,
        name: str,
        dim: int,
        *,
        optimizer: RowOptimizer | None = None,
        init: RowInit = _DEFAULT_INIT,
        mode: Mode | None = None,
        padding_idx: int | None = None,
    ) -> Embedding:
        """An `Embedding`, shared at once as a part of its own; models that hold it step it.

        It follows no optimizer: without one it is ``Adagrad(lr=0.05)``.

        Raises:
            UsageError: an argument is out of range, or the name is another table's.
            JobFailed: the job as a whole cannot go on.
        """
        module = Embedding(
            name, dim, optimizer=optimizer, init=init, mode=mode, padding_idx=padding_idx
        )
        self.share(module)
        return module

    def table(  # noqa: PLR0913  (the public signature; all but three are named)
        self,
        name: str,
        shape: tuple[int | None, ...],
        dtype: Any = "float32",  # noqa: ANN401  (whatever numpy takes for one)
        *,
        combine: str = "add",
        init: RowInit | Array | None = None,
        blocks: int | None = None,
        pace: Pace | str = _NO_SYNC,
        atomic: bool = False,
        replicate_every: int | None = None,
    ) -> Table:
        """Rows for algorithms that change the model themselves; a part of its own.

        Args:
            name: the same on every trainer, no other table's.
            shape: (rows, ...): dense; (None, ...): keyed by any int64 id.
            dtype: a fixed-width number of numpy or torch.
            combine: how values change rows: add, max, min; replace: by a lock or a version.
            init: how rows begin, or a dense table's values; None: 0; of max, min: the end.
            blocks: pieces that rows are cut into, for rotations; None: as suits.
            pace: `Async` (nothing waits), `SSP`, or ``Sync(reduce="sum")`` (in rounds).
            atomic: what a batch writes to all such tables is there together, or not at all.
            replicate_every: in a loop `Table.pull` reads a copy that this trainer keeps of
                a dense table; batches after which it is fetched again.

        Raises:
            UsageError: an argument is out of range; in a loop; or the n-th part differs.
            JobFailed: the job as a whole cannot go on.
        """
        self._calls.check_idle("table", "make tables before the loop")
        spec, begins = describe_table(name, shape, dtype, combine, init, blocks)
        said = parse_pace(pace) if isinstance(pace, str) else pace
        rows = self._sharing.add_table(
            spec, said, begins, atomic=atomic, every=replicate_every
        )
        membership = self._seat.alone("table").membership
        return Table(membership, self._stages, rows, replicate_every)

    def track(self, **objects: object) -> None:
        """Let the state of the user's own objects survive: scheduler, GradScaler, EMA.

        One trainer's state goes into every checkpoint. A trainer that joins, and everyone
        after a return to a checkpoint, loads it before its next batch. If the last that
        knows it is lost, all go back to the last checkpoint together. Buffers of a shared
        model (BatchNorm) are tracked unnamed; float ones are averaged when a loop ends.
        Of a torch scheduler in a job of several trainers a `StepWarning` says once that
        each counts its own steps: `schedule` follows the whole job.

        Args:
            objects: anything with ``state_dict`` and ``load_state_dict``, by names that
                are the same on every trainer.

        Raises:
            UsageError: inside a loop; a name is taken; or an object's state holds more
                than numbers, text, containers, tensors and arrays.
        """
        self._calls.check_idle("track", "track objects before the loop")
        for name, tracked in objects.items():
            self._seat.tracker.add(name, tracked)
        trainers = self._seat.num_trainers
        told = (why_not_tracked(*item, trainers) for item in objects.items())
        if (text := next(filter(None, told), None)) and not self._has_warned:
            self._has_warned = True
            warnings.warn(text, StepWarning, stacklevel=2)

    def batches(  # noqa: PLR0913  (the public signature; all but two are named)
        self,
        dataset: Any,  # noqa: ANN401  (whatever a user calls a data set)
        batch_size: int = 0,  # who leaves it out has a DataLoader, and is told what to give
        *,
        epochs: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        task_size: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        workers: int = 0,
        lookahead: int = 0,
        **unknown: Never,
    ) -> Batches:
        """This trainer's share of the batches, leased from the coordinator.

        Arguments are looked at now; the job's next stage it is when it is iterated, once,
        by the thread that steps. ``len()`` is that of the whole job's loop. A batch counts
        when the first ``step()`` after it is acknowledged. The end of the loop flushes what
        was accumulated; ``break`` hands back what no step has used: others train it; if all
        leave, it is left out, and the run ends with code 1. The loop ends on every trainer
        when the last epoch is over for all: one with nothing to do waits, since a lost
        trainer's task may come to it. After a return to a cut the loop goes on with what is
        leased then; what was accumulated is dropped. A data set that raises fails the task
        it was read for, not the loop.

        Args:
            dataset: map-style data set, tensor, tuple of tensors, Hugging Face data set, or
                a source of `paceline.data`; the same on every trainer.
            batch_size: records of a batch, at least 1.
            epochs: runs over the data.
            shuffle: in an order of its own in every epoch of every loop, the same for all
                trainers.
            seed: of that order.
            task_size: records of a task, a multiple of ``batch_size``.
            collate_fn: list of items -> batch; torch's default if None.
            workers: processes, forked from this one, that read ahead within a task; the
                order of batches is the same. Random numbers that the data set draws are
                then a function of ``seed`` and batch. With 0 the loop itself reads, a data
                set of your own only when its batch is taken.
            lookahead: batches that a prefetcher takes ahead of their steps, in one epoch:
                a step counts for all but the newest so many.
            unknown: nothing; words of a ``DataLoader`` are told what to write instead.

        Raises:
            UsageError: an argument is out of range, or nothing is shared yet; while
                iterating, another loop is open, or other trainers bring other data.
            JobFailed: while iterating, the job as a whole cannot go on.
        """
        self._calls.check_open()
        check_words(unknown)
        cutting = Cutting(batch_size, epochs, shuffle, seed, task_size, collate_fn, workers)
        planned = self._stages.plan("train", dataset, cutting)
        check_lookahead(lookahead, cutting, self._seat.size, self._seat.parts)
        deliver = partial(self._seat.deliver, workers=workers)
        planned = planned._replace(lookahead=lookahead)
        return Batches(self._calls, self._stages, planned, deliver)

    def send(
        self,
        to: str,
        payload: bytes | Array | Sequence[Array],
        topic: str = "",
        *,
        timeout_s: float = SEND_S,
    ) -> None:
        """Send an event to another trainer, or with ``to="all"`` to all others.

        When this returns it lies in each inbox, behind all that this trainer has sent
        there before. Of an error, some may have it. A trainer has an inbox once its own
        script has called `send`, `events` or `poll`; until then this waits for it.

        Args:
            to: role id of a trainer, such as ``"trainer-1"``; or ``"all"``: all others that
                are members of the job now.
            payload: bytes, an array, or arrays; of fixed-width dtypes, 64 MiB together.
            topic: whatever the receiver is to tell it by.
            timeout_s: for all receivers together.

        Raises:
            UsageError: it is no payload, or to this trainer itself.
            DeadlineExceeded: an inbox stayed full, or a trainer away; the text names it.
        """
        self._seat.events.send(to, payload, topic, timeout_s=timeout_s)

    def events(self, timeout_s: float) -> list[Event]:
        """What other trainers have sent, oldest first; waits ``timeout_s`` for one."""
        return self._seat.events.events(timeout_s)

    def poll(self) -> list[Event]:
        """What other trainers have sent by now, oldest first; waits for nothing."""
        return self._seat.events.poll()

    def log(self, **numbers: object) -> None:
        """Note numbers for progress, events and summary; the last value of a name wins.

        At most 20 messages a second; none is lost at a loop's end. Not finite: null.

        Raises:
            UsageError: a value is no number.
        """
        self._seat.log(numbers)

    def once(self, name: str) -> bool:
        """True in one trainer (rank 0), each time it asks; in its successor if it dies.

        What it guards must be fit to be repeated: the successor is not told how far it was.
        """
        return self._seat.once(name)

    def stop(self, reason: str) -> None:
        """End this and all later loops, on every trainer; what was stepped counts."""
        self._seat.stop(reason)

    def save(self) -> None:
        """Take a checkpoint; afterwards a cut begun after the call is committed."""
        self._calls.check_open()
        self._num_saves += 1
        self._seat.save(self._num_saves)

    @property
    def epoch(self) -> int:
        """Of the last batch, from 0; what was pushed in epochs before is all there."""
        return self._seat.outlook.epoch

    @property
    def records(self) -> int:
        """Acknowledged records of the job so far; fewer after a return to a cut."""
        return self._seat.records()

    @property
    def num_trainers(self) -> int:
        """How many trainers the job has now; before it begins, how many it waits for."""
        return self._seat.trainers()

    @property
    def refused_nonfinite(self) -> int:
        """Pushes of this trainer that went without their gradients: not all were finite."""
        refused = [part.gradients.refused for part in self._seat.parts.values()]
        return sum(refused) + self._sharing.num_refused

    def close(self) -> None:
        """Leave the job cleanly. May be repeated; raises nothing.

        What was stepped in a loop that was left is in a cut then; others, and a resumed
        job, go on with the loop.
        """
        self._seat.close()

    @property
    def membership(self) -> Presence:
        """This process in the job; whoever has launched it ends it by this."""
        return self._seat.membership

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Close; a script that fails has not come to the end of its loop."""
        self._calls.has_failed = is_failure(error)
        self.close()
