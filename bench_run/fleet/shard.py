"""One shard of a run, in a process of its own.

`python -m bench_run.fleet.shard` reads its job from stdin as JSON and writes its end to stdout.
Its progress goes to stderr.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bench_schema.errors import DocumentError

from bench_run.errors import BenchRunError, IncompleteRunError, UsageError
from bench_run.options import Options
from bench_run.runner.benchmark import VERSION, run_benchmark
from bench_run.runner.early import early_launcher
from bench_run.worker.guardian import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

STOP_S = 20.0
"""Time that a shard has to write its document after it was interrupted."""


@dataclass(frozen=True)
class Job:
    """Work of one shard. `options`: all fields of `Options`."""

    options: Mapping[str, Any]
    command: Sequence[str]
    cpus: Sequence[int] = ()
    """Processors that it may use; empty for all."""
    version: str = VERSION


@dataclass(frozen=True)
class End:
    """End of a shard. `error`: why nothing was measured; `problems`: defects of its document."""

    error: str | None = None
    problems: Sequence[str] = ()
    lost: str | None = None
    """Death of its process, in words; None if it ended by itself."""


class ShardProcess:
    """A shard that runs on this host, as the process that started it sees it."""

    def __init__(
        self,
        job: Job,
        part: Path,
        environment: Mapping[str, str | None],
        hear: Callable[[str], object],
    ) -> None:
        """Start it. `part`: its document; `environment`: changes to ours, None removes a variable.
        `hear` is called with each line of progress, from a thread."""
        changed = {**os.environ, **environment}
        self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            env={name: value for name, value in changed.items() if value is not None},
        )
        self._said = ""
        self._last = ""
        self._threads = [
            threading.Thread(target=read, daemon=True)
            for read in (lambda: self._pass_on(hear), self._keep_end)
        ]
        for thread in self._threads:
            thread.start()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as pipe:
            options = {**job.options, "output": str(part)}
            json.dump({**vars(job), "options": options, "parent": os.getpid()}, pipe)

    def _pass_on(self, hear: Callable[[str], object]) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.strip():
                self._last = line.strip()
                hear(self._last)

    def _keep_end(self) -> None:
        assert self._process.stdout is not None
        self._said = self._process.stdout.read()

    def end(self) -> End | None:
        """Return its end; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        for thread in self._threads:
            thread.join()
        with suppress(ValueError, TypeError):
            return End(**json.loads(self._said))
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return End(lost=f"{how}: {self._last}" if self._last else how)

    def stop(self) -> None:
        """Interrupt it: it writes what it has measured. Kill it if that takes too long."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def main() -> None:
    """Run the job that stdin describes."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    job = json.load(sys.stdin)
    if os.getppid() != job["parent"]:  # it died before the kernel was asked
        return
    answer = End()
    try:
        if job["version"] != VERSION:
            raise UsageError(f"it has bench-run {VERSION}, the run {job['version']}")
        if job["cpus"]:
            os.sched_setaffinity(0, job["cpus"])
        options = Options(**{name: as_tuples(value) for name, value in job["options"].items()})
        with early_launcher(options) as launcher:
            run_benchmark(options, job["command"], launcher)
    except IncompleteRunError as error:
        answer = End(problems=error.problems)
    except (BenchRunError, DocumentError, OSError) as error:
        answer = End(error=str(error))
    except KeyboardInterrupt:
        answer = End(error="interrupted")
    json.dump(asdict(answer), sys.stdout)


def as_tuples(value: Any) -> Any:
    """Return the value with tuples for lists, as `Options` has them."""
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


if __name__ == "__main__":
    main()
