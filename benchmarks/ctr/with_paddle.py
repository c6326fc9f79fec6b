"""The CTR job under Paddle's fleet parameter server, one process of it.

::

    trainer   data, forward, backward; pulls and pushes by Paddle's communicator
    server    holds dense parameters and the sparse table, and updates them

`a_sync`: nobody waits for pushes, unless `Job.at_once` says after how many steps; the time
ends when the server has taken all. The network is pulled after every step. The server
draws new rows itself, and keeps one step count for each row under Adam; its Adagrad has one
sum for all of a row, which is another rule than ours. The held-out loss is computed by
Paddle's own forward.

Needs ``FLAGS_enable_pir_api=0``; Paddle 3 has no such server.
"""

import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import paddle
from paddle.distributed import fleet
from paddle.distributed.ps.utils.public import get_the_one_recv_context

from benchmarks.ctr.handed import (
    Flags,
    Float32s,
    Handed,
    Int64s,
    Job,
    mean_loss,
    read_flags,
    read_handed,
    write_result,
)

TABLE = "rows"
RULES = {"adam": "SparseAdamSGDRule", "adagrad": "SparseAdaGradSGDRule"}

Variable = Any  # Paddle is typed by name only


class Graph(NamedTuple):
    """What is run: programs, what goes in, and what comes out."""

    training: Any
    prediction: Any
    logits: Variable


def say_who(role: str, ports: list[int]) -> None:
    """Tell fleet who is where, as its launcher does."""
    server, trainer = (f"127.0.0.1:{port}" for port in ports)
    os.environ |= {
        "PADDLE_PSERVERS_IP_PORT_LIST": server,
        "PADDLE_TRAINER_ENDPOINTS": trainer,
        "PADDLE_TRAINERS_NUM": "1",
        "PADDLE_TRAINER_ID": "0",
        "TRAINING_ROLE": {"trainer": "TRAINER", "server": "PSERVER"}[role],
        "POD_IP": "127.0.0.1",
        "PADDLE_PORT": str(ports[role == "trainer"]),
    }


def table_rules(job: Job) -> dict[str, object]:
    """How the server makes and updates rows."""
    found: dict[str, object] = {
        "table_class": "MemorySparseTable",
        "shard_num": 16,
        "accessor.accessor_class": "SparseAccessor",
        "accessor.fea_dim": job.dim + 2,
        "accessor.embedx_dim": job.dim - 1,
        "accessor.embedx_threshold": 0,
        "accessor.ctr_accessor_param.zero_init": False,
    }
    for side in ("embed", "embedx"):  # the first value of a row, and the others
        rule = f"accessor.{side}_sgd_param"
        found[f"{rule}.name"] = RULES[job.rows]
        values: dict[str, object] = {
            "learning_rate": job.rows_lr,
            "initial_range": job.half_width,
            "weight_bounds": [-10.0, 10.0],
        }
        if job.rows == "adam":
            values |= {
                "beta1_decay_rate": 0.9,
                "beta2_decay_rate": 0.999,
                "ada_epsilon": 1e-8,
            }
        else:
            values["initial_g2sum"] = 1e-10
        found |= {f"{rule}.{job.rows}.{name}": value for name, value in values.items()}
    return {f"table_parameters.{TABLE}.{name}": value for name, value in found.items()}


def build(job: Job, handed: Handed) -> Graph:
    """The programs, with fleet's optimizer in the training one."""
    ids = paddle.static.data("ids", [None, 1], "int64")
    labels = paddle.static.data("labels", [None, 1], "float32")
    rows = paddle.static.nn.sparse_embedding(
        ids,
        [job.ids, job.dim],
        param_attr=paddle.ParamAttr(
            name=TABLE,
            initializer=paddle.nn.initializer.Uniform(-job.half_width, job.half_width),
        ),
    )
    values = paddle.reshape(rows, [-1, job.fields * job.dim])
    for number, (weights, _) in enumerate(handed.network):
        values = paddle.static.nn.fc(
            values,
            weights.shape[1],
            weight_attr=_at_zero(f"w{number}"),
            bias_attr=_at_zero(f"b{number}"),
            activation="relu" if number < len(handed.network) - 1 else None,
        )
    losses = paddle.nn.functional.binary_cross_entropy_with_logits(values, labels)
    loss = paddle.mean(losses)
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    strategy.sparse_table_configs = {TABLE: table_rules(job)}
    adam = paddle.optimizer.Adam(job.network_lr)
    fleet.distributed_optimizer(adam, strategy).minimize(loss)
    training = paddle.static.default_main_program()  # which fleet has put in its place
    prediction = training.clone(for_test=True)._prune([values])  # pushes are left out
    for operation in prediction.global_block().ops:
        if operation.type == "distributed_lookup_table":
            operation._set_attr("is_test", False)  # or unseen rows would be zeros
    return Graph(training, prediction, values)


def _at_zero(name: str) -> Any:  # noqa: ANN401  (Paddle's own)
    """A parameter of this name; a server can begin with constants, not with arrays."""
    start = paddle.nn.initializer.Constant(0.0)
    return paddle.ParamAttr(name=name, initializer=start)


def begin_as_handed(handed: Handed) -> None:
    """Set the trainer's network, which it uploads when it joins."""
    scope = paddle.static.global_scope()
    for number, layer in enumerate(handed.network):
        for letter, values in zip("wb", layer, strict=True):
            tensor = scope.find_var(f"{letter}{number}").get_tensor()
            tensor.set(values, paddle.CPUPlace())


def id_batches(job: Job) -> Iterator[Int64s]:
    """All ids, in batches that fit the graph; the last begins again with the first."""
    width = job.batch * job.fields
    for start in range(0, job.ids, width):
        some = np.arange(start, start + width, dtype=np.int64) % job.ids
        yield some.reshape(job.batch, job.fields)


def flush() -> None:
    """Wait until the server has taken every push."""
    fleet.fleet._runtime_handle._worker.client_flush()


def pull_network() -> None:
    """Have in this process what the server holds of the network."""
    runtime = fleet.fleet._runtime_handle
    places = get_the_one_recv_context(runtime.context, split_dense_table=False)
    runtime._pull_all_dense(runtime.scopes, runtime._send_ctx, places)


def train(flags: Flags) -> None:
    """Be the trainer."""
    job, handed = flags.job, read_handed(flags.folder, flags.job)
    graph = build(job, handed)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    begin_as_handed(handed)
    fleet.init_worker()

    def predict(ids: Int64s) -> Float32s:
        feed = {"ids": ids.reshape(-1, 1)}
        return executor.run(graph.prediction, feed=feed, fetch_list=[graph.logits])[0][:, 0]

    for ids in id_batches(job):
        predict(ids)  # a row is made, with its state, when it is first pulled
    began_s = 0.0
    for step in range(job.steps):
        if step == job.warm:
            began_s = time.perf_counter()
        feed = {
            "ids": handed.batch_ids[step].reshape(-1, 1),
            "labels": handed.batch_labels[step][:, None],
        }
        executor.run(graph.training, feed=feed)
        if job.at_once and (step + 1) % job.at_once == 0:
            flush()
        pull_network()
    flush()
    seconds = time.perf_counter() - began_s
    pull_network()
    parts = np.split(handed.held_ids, range(8192, len(handed.held_ids), 8192))
    logits = np.concatenate([predict(part) for part in parts])
    write_result(flags.out, seconds, mean_loss(logits, handed.held_labels))


def main() -> None:
    """Be one process of the job."""
    flags = read_flags(__doc__ or "", ("trainer", "server"))
    say_who(flags.role, flags.ports)
    paddle.enable_static()
    fleet.init(fleet.PaddleCloudRoleMaker())
    if flags.role == "trainer":
        train(flags)
        os._exit(0)  # leaving in order would sometimes crash in Paddle's own destructors
    build(flags.job, read_handed(flags.folder, flags.job))
    fleet.init_server()
    fleet.run_server()


if __name__ == "__main__":
    main()
