"""Ray: the GPUs of a cluster, and an actor on each that runs a shard. The only module that imports
it. An actor sends what its shard appends to the journal, so that no round is lost with its host.
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

from bench_schema.journal import journal_path
from bench_schema.settings import rows_of

from bench_run.errors import EngineUnavailableError, UsageError
from bench_run.fleet.shard import End, Job, ShardProcess
from bench_run.fleet.shards import POLL_S, check_shards, run_shards
from bench_run.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench_schema.document import Document

    from bench_run.fleet.shards import Shard

NAMES = ("auto", "local")
REACH_S = 10.0
SILENT_S = 120.0
"""Time without an answer after which an actor is given up; starting one takes some seconds."""
ASK_S = 0.5
ELSEWHERE = ("counters", "write_golden", "save_outputs")
"""Options that write files on the host that measures."""


def run_on_cluster(options: Options, command: Sequence[str] = ()) -> Document:
    """Run on the cluster that `options.ray` names. Raises as `run_benchmark` does."""
    assert options.ray is not None
    check_shards(options, "--ray")
    for name in ELSEWHERE:
        if getattr(options, name) is not None:
            flag = rows_of(Options)[name].flag
            raise UsageError(f"{flag} does not go with --ray: the files would be on other hosts")
    if options.devices != (0,):
        raise UsageError("--device does not go with --ray, which uses every GPU of the cluster")
    with connect(options.ray) as ray:
        return run_shards(options, command, cluster_places(ray))


def whole_lines(path: Path, begin: int = 0) -> bytes:
    """Return the bytes of a file from `begin` up to the end of its last line; nothing without a
    file."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(begin)
        data = file.read()
        return data[: data.rfind(b"\n") + 1]
    return b""


@dataclass(frozen=True)
class News:
    """Events on an actor since the last question."""

    journal: bytes = b""
    """New lines of the journal."""
    lines: Sequence[str] = ()
    end: End | None = None
    document: bytes = b""
    """The shard's document, once it has ended."""


class RemoteShard:
    """An actor: runs one shard in a process of its host, which ends with the actor."""

    def __init__(self, job: Job, journal: bytes, document: bytes) -> None:
        """Start the shard, which continues what an earlier one left."""
        self._lines: list[str] = []
        self._folder = tempfile.TemporaryDirectory(prefix="bench-run-")
        self._part = Path(self._folder.name) / "part.json"
        for path, data in ((journal_path(self._part), journal), (self._part, document)):
            if data:
                path.write_bytes(data)
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # Ray may have bound it to some
        # Ray sets the number of threads of tasks; engines have a setting of their own for it
        without = {"OMP_NUM_THREADS": None}
        self._process = ShardProcess(job, self._part, without, self._lines.append)

    def news(self, received: int) -> News:
        """Return the news after byte `received` of the journal; wait a moment for some."""
        journal, until = b"", time.monotonic() + ASK_S
        while (end := self._process.end()) is None and time.monotonic() < until:
            journal = whole_lines(journal_path(self._part), received)
            if journal or self._lines:
                break
            time.sleep(POLL_S)
        lines, self._lines[:] = list(self._lines), []
        if end is None:
            return News(journal, lines)
        document = self._part.read_bytes() if self._part.exists() else b""
        return News(whole_lines(journal_path(self._part), received), lines, end, document)


class RayShard:
    """A shard on a cluster, as the run sees it."""

    def __init__(
        self, ray: Any, actor: Any, job: Job, part: Path, hear: Callable[[str], object]
    ) -> None:
        self._ray, self._hear, self._part, self._journal = ray, hear, part, journal_path(part)
        before = whole_lines(self._journal)
        document = part.read_bytes() if part.exists() and not before else b""
        if before:
            self._journal.write_bytes(before)
        self._received = len(before)
        self._actor = actor.remote(job, before, document)
        self._ask()

    def _ask(self) -> None:
        self._answer, self._asked_s = self._actor.news.remote(self._received), time.monotonic()

    def end(self) -> End | None:
        """Keep the news that came, and ask for more."""
        try:
            if not self._ray.wait([self._answer], timeout=0)[0]:
                is_silent = time.monotonic() - self._asked_s > SILENT_S
                return self._close(End(lost="it does not answer")) if is_silent else None
            news: News = self._ray.get(self._answer)
        except self._ray.exceptions.RayError as error:
            return self._close(End(lost=_first_line(error)))
        for line in news.lines:
            self._hear(line)
        if news.journal:
            with self._journal.open("ab" if self._received else "wb") as file:
                file.write(news.journal)
        self._received += len(news.journal)
        if news.document:
            self._part.write_bytes(news.document)
            self._journal.unlink(missing_ok=True)
        if news.end is not None:
            return self._close(news.end)
        self._ask()
        return None

    def stop(self) -> None:
        """End it; what it sent is kept."""
        self._close(End())

    def _close(self, end: End) -> End:
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._actor, no_restart=True)
        return end


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
        """Return True if the node is listed and alive."""
        return any(n["NodeID"] == self.node and n["Alive"] for n in self.ray.nodes())

    def start(self, job: Job, part: Path, hear: Callable[[str], object]) -> Shard:
        """Start a shard on the node."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = self.ray.remote(RemoteShard).options(
            num_cpus=max(1.0, float(int(self.cpus))),
            num_gpus=self.gpus,
            scheduling_strategy=NodeAffinitySchedulingStrategy(self.node, soft=False),
        )
        return RayShard(self.ray, actor, job, part, hear)


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


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"


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
    quiet = {"logging_level": "ERROR", "log_to_driver": False, "configure_logging": False}
    try:
        ray.init(address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise UsageError(
            f"--ray {address}: no cluster there, or one that asks for a token "
            f"(RAY_AUTH_MODE=token): {_first_line(error)}"
        ) from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray takes it; a run ends as on Ctrl-C
    try:
        yield ray
    finally:
        ray.shutdown()


def check_reachable(address: str) -> None:
    """Raise `UsageError` if nothing listens at an address; Ray would try for minutes."""
    host, colon, port = address.rpartition(":")
    if address not in NAMES and (not (colon and port.isdecimal()) or "/" in host):
        raise UsageError(
            f"--ray {address}: expected local, auto or HOST:PORT; start bench-run on a host that "
            "reaches the cluster's head"
        )
    try:
        if address not in NAMES:
            socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"--ray {address}: no cluster there: {error}") from None
