"""Ray: which units a cluster has, and an actor on each. The only module that imports it.

Ray starts processes, tells when they die and carries messages. It neither restarts nor repeats
anything of ours: what was lost is the run's to know.
"""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_run.errors import BenchRunError, UsageError
from bench_run.files import Scratch
from bench_run.fleet.guard import guarded
from bench_run.fleet.unit import CLOSE_S, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_run.options import Options

LOCAL = "local"
REACH_S = 10.0
STORE_BYTES = 256 << 20
"""For `--ray local`: results are small, and are fetched as they come."""
LONGEST_FOLDER = 23
"""Characters of the folder for temporary files: names of Ray's sockets are 83 longer, and the
kernel takes 107."""


class LostError(BenchRunError):
    """A unit that does not answer any more."""


@dataclass(frozen=True)
class Slot:
    """Room for one unit."""

    key: str
    node: str
    """As Ray calls it."""
    host: str
    gpus: int
    cpus: float


def import_ray() -> Any:
    """Raises `UsageError` where it is absent."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UsageError("--ray needs Ray: pip install 'dnn-bench[ray]'") from None
    return ray


class Cluster:
    """A connection with a Ray cluster, and the actors that were started."""

    def __init__(self, ray: Any, unit: type[Unit]) -> None:
        self.ray = ray
        self._unit = unit
        self._actors: dict[str, Any] = {}

    def slots(self) -> list[Slot]:
        """A slot for each GPU; where no node has one, a slot for the processors of each node."""
        nodes = sorted(
            (node for node in self.ray.nodes() if node["Alive"]),
            key=lambda node: (node["NodeManagerHostname"], node["NodeID"]),
        )
        gpus = {node["NodeID"]: int(node["Resources"].get("GPU", 0)) for node in nodes}
        found = []
        for node in nodes:
            cpus = node["Resources"].get("CPU", 0.0)
            count = gpus[node["NodeID"]]
            if any(gpus.values()):
                found += [_slot(node, place, 1, cpus / count) for place in range(count)]
            elif cpus:
                found.append(_slot(node, 0, 0, cpus))
        return found

    def is_alive(self, slot: Slot) -> bool:
        """Whether the slot's node is."""
        try:
            return any(n["NodeID"] == slot.node and n["Alive"] for n in self.ray.nodes())
        except self.ray.exceptions.RayError:
            return False

    def start(self, slot: Slot, options: Options) -> None:
        """Begin to start a unit; what it is asked waits for it."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = self.ray.remote(self._unit).options(
            num_cpus=max(1.0, float(int(slot.cpus))),
            num_gpus=slot.gpus,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=2,
            scheduling_strategy=NodeAffinitySchedulingStrategy(slot.node, soft=False),
        )
        self._actors[slot.key] = actor.remote(options)

    def ask(self, slot: Slot, method: str, *arguments: object) -> Any:
        """A promise of the answer."""
        return getattr(self._actors[slot.key], method).remote(*arguments)

    def share(self, value: object) -> Any:
        """A value that several are sent."""
        return self.ray.put(value)

    def wait(self, promises: Sequence[Any], timeout_s: float) -> list[Any]:
        """Those that are kept or broken by now; waits for the first. Raises `LostError` where the
        cluster is."""
        listed = list(promises)
        try:
            ready, _ = self.ray.wait(listed, num_returns=len(listed), timeout=0, fetch_local=False)
            if not ready:
                ready, _ = self.ray.wait(listed, num_returns=1, timeout=timeout_s)
        except self.ray.exceptions.RayError as error:
            raise LostError(_first_line(error)) from None
        return list(ready)

    def answer(self, promise: Any) -> Any:
        """Raises `LostError`, or the error that the unit met."""
        try:
            return self.ray.get(promise)
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, BenchRunError):
                raise cause from None
            raise LostError(f"its process failed: {type(cause).__name__}: {cause}") from None
        except self.ray.exceptions.RayError as error:
            raise LostError(_first_line(error)) from None

    def close(self) -> None:
        self._end(list(self._actors))

    def end(self, slot: Slot) -> None:
        self._end([slot.key] if slot.key in self._actors else [])

    def _end(self, keys: Sequence[str]) -> None:
        """Units leave nothing on their hosts; those that do not answer are ended all the same."""
        actors = [self._actors.pop(key) for key in keys]
        try:
            with suppress(self.ray.exceptions.RayError):
                ended = [actor.close.remote() for actor in actors]
                if ended:
                    self.ray.wait(ended, num_returns=len(ended), timeout=CLOSE_S + 1)
        finally:
            for actor in actors:
                with suppress(self.ray.exceptions.RayError):
                    self.ray.kill(actor, no_restart=True)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"


def _slot(node: dict[str, Any], place: int, gpus: int, cpus: float) -> Slot:
    host = node["NodeManagerHostname"]
    return Slot(f"{node['NodeID']}/{place}", node["NodeID"], host, gpus, cpus)


@contextmanager
def connect(address: str, unit: type[Unit] = Unit) -> Iterator[Cluster]:
    """Raises `UsageError` where there is no cluster."""
    ray = import_ray()
    check_reachable(address)
    given: dict[str, Any] = {
        "logging_level": "ERROR",
        "log_to_driver": False,
        "configure_logging": False,
    }
    with ExitStack() as undo:
        if address == LOCAL:
            is_short = len(tempfile.gettempdir()) <= LONGEST_FOLDER
            scratch = Scratch(None if is_short else "/tmp")  # noqa: S108 - it makes its own folder
            undo.callback(scratch.close)
            undo.enter_context(guarded(scratch.path))
            given |= {"_temp_dir": str(scratch.path), "include_dashboard": False}
            given["object_store_memory"] = STORE_BYTES
        undo.callback(ray.shutdown)
        handler = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address, **given)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise UsageError(
                f"--ray {address}: no cluster there, or one that asks for a token "
                f"(RAY_AUTH_MODE=token): {_first_line(error)}"
            ) from None
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)  # Ray takes it; a run ends as on Ctrl-C
        cluster = Cluster(ray, unit)
        undo.callback(cluster.close)
        yield cluster


def check_reachable(address: str) -> None:
    """Raises `UsageError` where nobody listens: Ray would try for minutes."""
    if address in (LOCAL, "auto"):
        return
    host, colon, port = address.rpartition(":")
    if not (colon and port.isdecimal()) or "/" in host:
        raise UsageError(
            f"--ray {address}: expected local, auto or HOST:PORT; start bench-run on a host that "
            "reaches the cluster's head"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"--ray {address}: no cluster there: {error}") from None
