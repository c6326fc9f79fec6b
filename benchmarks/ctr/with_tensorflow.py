"""The CTR job under TensorFlow's ParameterServerStrategy, one process of it.

::

    client    the coordinator: makes the variables, schedules steps, takes the time
    trainer   what TensorFlow calls a worker: data, forward, backward
    server    holds the variables, and applies the updates to them

Written for speed where TensorFlow leaves a choice: ids are made unique by the trainer, so
that each row travels once; updates are the fused kernels, at the server; several steps are
one call (`Job.at_once`), as TensorFlow's guide advises against the cost of scheduling.
"""

import math
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from benchmarks.ctr.handed import (
    Flags,
    Handed,
    Job,
    logits_of,
    mean_loss,
    read_flags,
    read_handed,
    write_result,
)

SERVER = "/job:ps/replica:0/task:0/device:CPU:0"
BETAS = (0.9, 0.999)
EPSILON = 1e-8
ADAGRAD_EPSILON = 1e-10

Tensor = Any  # a tf.Tensor; TensorFlow is typed by name only
Variable = Any


class Learned(NamedTuple):
    """A variable with its optimizer's two states (Adagrad uses the first)."""

    value: Variable
    first: Variable
    second: Variable


class Model(NamedTuple):
    """All variables, at the server."""

    rows: Learned
    network: list[Learned]  # weights and biases in turn
    step: Variable


def cluster_of(ports: list[int]) -> dict[str, list[str]]:
    """Who is where."""
    roles = ("chief", "worker", "ps")
    return {role: [f"127.0.0.1:{port}"] for role, port in zip(roles, ports, strict=True)}


def config() -> Any:  # noqa: ANN401  (TensorFlow's)
    """One computing thread; two that order operations, since one can wait for itself."""
    return tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=2
    )


def serve(role: str, ports: list[int]) -> None:
    """Be a trainer or a server, until killed."""
    name = {"trainer": "worker", "server": "ps"}[role]
    spec = tf.train.ClusterSpec(cluster_of(ports))
    tf.distribute.Server(spec, job_name=name, task_index=0, config=config()).join()


def make_model(handed: Handed) -> Model:
    """The variables, every page of them written."""

    def learned(values: Any) -> Learned:  # noqa: ANN401  (an array)
        states = [tf.Variable(tf.zeros(values.shape)) for _ in range(2)]
        return Learned(tf.Variable(values), *states)

    with tf.device(SERVER):
        network = [learned(values) for layer in handed.network for values in layer]
        return Model(learned(handed.rows), network, tf.Variable(0.0))


def forward(rows: Tensor, where: Tensor, network: list[Tensor], job: Job) -> Tensor:
    """Logits (batch,) from unique rows and where each of a batch's ids stands in them."""
    values = tf.reshape(tf.gather(rows, where), [-1, job.fields * job.dim])
    for number in range(0, len(network), 2):
        values = tf.matmul(values, network[number]) + network[number + 1]
        if number + 2 < len(network):
            values = tf.nn.relu(values)
    return tf.squeeze(values, 1)


def apply_rows(model: Model, ids: Tensor, gradient: Tensor, job: Job) -> None:
    """Update unique rows at the server: Adagrad's kernel, or Adam on these rows alone."""
    value, first, second = model.rows
    with tf.device(SERVER):
        if job.rows == "adagrad":
            tf.raw_ops.ResourceSparseApplyAdagradV2(
                var=value.handle,
                accum=first.handle,
                lr=job.rows_lr,
                epsilon=ADAGRAD_EPSILON,
                grad=gradient,
                indices=ids,
            )
            return
        m = BETAS[0] * tf.gather(first, ids) + (1 - BETAS[0]) * gradient
        v = BETAS[1] * tf.gather(second, ids) + (1 - BETAS[1]) * gradient * gradient
        unbiased = tf.sqrt(1 - BETAS[1] ** model.step) / (1 - BETAS[0] ** model.step)
        change = job.rows_lr * unbiased * m / (tf.sqrt(v) + EPSILON)
        tf.raw_ops.ResourceScatterUpdate(resource=first.handle, indices=ids, updates=m)
        tf.raw_ops.ResourceScatterUpdate(resource=second.handle, indices=ids, updates=v)
        tf.raw_ops.ResourceScatterSub(resource=value.handle, indices=ids, updates=change)


def apply_network(model: Model, gradients: list[Tensor], job: Job) -> None:
    """Adam's fused kernel on every variable of the network, at the server."""
    with tf.device(SERVER):
        for learned, gradient in zip(model.network, gradients, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=learned.value.handle,
                m=learned.first.handle,
                v=learned.second.handle,
                beta1_power=BETAS[0] ** model.step,
                beta2_power=BETAS[1] ** model.step,
                lr=job.network_lr,
                beta1=BETAS[0],
                beta2=BETAS[1],
                epsilon=EPSILON,
                grad=gradient,
            )


def make_steps(model: Model, job: Job, at_once: int) -> Callable[[Any], None]:
    """The function that is scheduled: so many steps over what an iterator gives."""

    @tf.function
    def steps(iterator: Any) -> None:  # noqa: ANN401  (TensorFlow's)
        for _ in tf.range(at_once):
            ids, labels = next(iterator)
            unique, where = tf.unique(tf.reshape(ids, [-1]))
            rows = tf.gather(model.rows.value, unique)
            network = [learned.value.read_value() for learned in model.network]
            with tf.GradientTape() as tape:
                tape.watch([rows, *network])
                logits = forward(rows, where, network, job)
                loss = tf.reduce_mean(
                    tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
                )
            of_rows, *of_network = tape.gradient(loss, [rows, *network])
            model.step.assign_add(1.0)
            apply_rows(model, unique, tf.convert_to_tensor(of_rows), job)
            apply_network(model, of_network, job)

    return steps


def make_dataset(folder: str, job: Job) -> Any:  # noqa: ANN401  (TensorFlow's)
    """The batches in their order, read by the trainer."""

    def read(name: str, kind: Any, shape: list[int], size: int) -> Any:  # noqa: ANN401
        records = tf.data.FixedLengthRecordDataset(
            f"{folder}/{name}", size * math.prod(shape)
        )
        return records.map(lambda text: tf.reshape(tf.io.decode_raw(text, kind), shape))

    ids = read("ids.bin", tf.int64, [job.batch, job.fields], 8)
    labels = read("labels.bin", tf.float32, [job.batch], 4)
    return tf.data.Dataset.zip((ids, labels)).prefetch(2)


def train(flags: Flags) -> None:
    """Be the client."""
    job, handed = flags.job, read_handed(flags.folder, flags.job)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster_of(flags.ports)),
        task_type="chief",
        task_id=0,
        rpc_layer="grpc",
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    model = make_model(handed)
    folder = str(flags.folder)
    batches = coordinator.create_per_worker_dataset(lambda: make_dataset(folder, job))
    iterator = iter(batches)
    at_once = math.gcd(job.warm, job.timed, job.at_once)
    steps = make_steps(model, job, at_once)

    def run(count: int) -> float:
        began_s = time.perf_counter()
        for _ in range(count // at_once):
            coordinator.schedule(steps, args=(iterator,))
        coordinator.join()
        return time.perf_counter() - began_s

    run(job.warm)
    seconds = run(job.timed)
    if model.step.numpy() != job.steps:
        raise RuntimeError(f"expected {job.steps} steps, the server counts {model.step}")
    values = [learned.value.numpy() for learned in model.network]
    network = list(zip(values[::2], values[1::2], strict=True))
    logits = logits_of(model.rows.value.numpy()[handed.held_ids], network)
    write_result(flags.out, seconds, mean_loss(logits, handed.held_labels))


def main() -> None:
    """Be one process of the job."""
    flags = read_flags(__doc__ or "", ("client", "trainer", "server"))
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    if flags.role == "client":
        train(flags)
        os._exit(0)  # whose threads would wait for servers that are ended after it
    serve(flags.role, flags.ports)


if __name__ == "__main__":
    main()
