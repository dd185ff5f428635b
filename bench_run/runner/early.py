"""Templates of a run that start before the rest of the program is imported, because the libraries
of an engine take longer. Errors in the options are left to the planning of the run.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from bench_run.engines.spec import parse_spec
from bench_run.errors import BenchRunError
from bench_run.options import Engines, grouped
from bench_run.plan.engines import engine_texts, plan_engines
from bench_run.worker.life import Launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench_run.options import Options


@contextmanager
def early_launcher(
    options: Options, make: Callable[[], Launcher] | None = None
) -> Iterator[Launcher]:
    """Yield a launcher whose templates already import, for the engines in the options; closed with
    the context. `make` makes it, by default as the options say."""
    launcher = Launcher(options.worker_start, options.timeout_s) if make is None else make()
    try:
        with suppress(BenchRunError):
            chosen = grouped(Engines, options)
            texts, _ = engine_texts(chosen)
            for engine in plan_engines(chosen, [parse_spec(text) for text in texts]):
                if options.tuned is None:
                    launcher.preload(engine)
        yield launcher
    finally:
        launcher.close()
