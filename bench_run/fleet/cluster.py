"""Ray: the GPUs of a cluster, and a task on each that runs a shard. The only module that imports
it. A task sends its document when it has ended; a shard whose host is lost starts on another.
"""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.settings import rows_of

from bench_run.errors import EngineUnavailableError, UsageError, message_of
from bench_run.fleet.shard import End, Job, ShardProcess
from bench_run.fleet.shards import POLL_S, check_shards, run_shards
from bench_run.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench_schema.document import Document

    from bench_run.fleet.shards import Shard


def run_on_cluster(options: Options, command: Sequence[str] = ()) -> Document:
    """Run on the cluster that `options.ray` names. Raises as `run_benchmark` does."""
    assert options.ray is not None
    check_shards(options, "--ray")
    for name in ("counters", "write_golden", "save_outputs"):  # files of the host that measures
        if getattr(options, name) is not None:
            flag = rows_of(Options)[name].flag
            raise UsageError(f"{flag} does not go with --ray: its files would be on other hosts")
    if options.devices != (0,):
        raise UsageError("--device does not go with --ray, which uses every GPU of the cluster")
    with connect(options.ray) as ray:
        return run_shards(options, command, cluster_places(ray))


def run_shard(job: Job, document: bytes) -> tuple[End, bytes]:
    """Run a shard on this host, which continues a document; return its end and its document."""
    with tempfile.TemporaryDirectory(prefix="bench-run-") as folder:
        part = Path(folder) / "part.json"
        if document:
            part.write_bytes(document)
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # Ray may have bound it to some
        # Ray sets the number of threads of tasks; engines have a setting of their own for it
        process = ShardProcess(job, part, {"OMP_NUM_THREADS": None}, lambda _line: None)
        while (end := process.end()) is None:  # it ends with this process
            time.sleep(POLL_S)
        return end, part.read_bytes() if part.exists() else b""


class RayShard:
    """A shard on a cluster, as the run sees it."""

    def __init__(self, ray: Any, task: Any, job: Job, part: Path) -> None:
        self._ray, self._part = ray, part
        self._answer = task.remote(job, part.read_bytes() if part.exists() else b"")

    def end(self) -> End | None:
        try:
            if not self._ray.wait([self._answer], timeout=0)[0]:
                return None
            end, document = self._ray.get(self._answer)
        except self._ray.exceptions.RayError as error:
            return End(lost=message_of(error))
        if document:
            self._part.write_bytes(document)
        return End(**vars(end))

    def stop(self) -> None:
        with suppress(self._ray.exceptions.RayError):
            self._ray.cancel(self._answer, force=True)


@dataclass(frozen=True)
class RayPlace:
    """A GPU of a cluster, or the processors of a node without GPUs."""

    ray: Any
    node: str
    name: str
    gpus: int
    cpus: float
    companions: tuple[str, ...] = ()

    def is_usable(self) -> bool:
        return any(n["NodeID"] == self.node and n["Alive"] for n in self.ray.nodes())

    def start(self, job: Job, part: Path, _hear: Callable[[str], object]) -> Shard:
        """Start a shard on the node; it says nothing before it has ended."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        task = self.ray.remote(run_shard).options(
            num_cpus=max(1.0, float(int(self.cpus))),
            num_gpus=self.gpus,
            max_retries=0,  # a lost shard starts on another host
            scheduling_strategy=NodeAffinitySchedulingStrategy(self.node, soft=False),
        )
        return RayShard(self.ray, task, job, part)


def cluster_places(ray: Any) -> list[RayPlace]:
    """Return a place for each GPU; without GPUs, one for each node."""
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    on_gpus = any(node["Resources"].get("GPU") for node in nodes)
    found = []
    for node in sorted(nodes, key=lambda node: (node["NodeManagerHostname"], node["NodeID"])):
        host, cpus = node["NodeManagerHostname"], node["Resources"]["CPU"]
        names = [f"GPU {i} of {host}" for i in range(int(node["Resources"].get("GPU", 0)))]
        for name in names if on_gpus else [host]:
            others = tuple(other for other in names if other != name)
            share = cpus / max(1, len(names))
            found.append(RayPlace(ray, node["NodeID"], name, int(on_gpus), share, others))
    if not found:
        raise EngineUnavailableError("--ray: the cluster has no node that can measure")
    return found


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Connect with a cluster; yield the module `ray`. Raises `UsageError` if there is none."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UsageError("--ray needs Ray: pip install 'dnn-bench[ray]'") from None
    check_reachable(address)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address, logging_level=40, log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        why = f"no cluster there, or one that asks for a token: {message_of(error)}"
        raise UsageError(f"--ray {address}: {why}") from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray takes it; a run ends as on Ctrl-C
    try:
        yield ray
    finally:
        ray.shutdown()


def check_reachable(address: str) -> None:
    """Raise `UsageError` if nothing listens at an address; Ray would try for minutes."""
    if address in ("auto", "local"):
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), 10).close()
    except (OSError, OverflowError, ValueError) as error:
        what = "no cluster there; expected local, auto or HOST:PORT of its head"
        raise UsageError(f"--ray {address}: {what}: {error}") from None
