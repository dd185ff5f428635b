"""Templates of a run that start before the rest of the program is read: they import their engine's
libraries meanwhile, which takes longer.

Nothing here is final: what is wrong with the options is found, and said, by who plans the run.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from bench_run.engines.spec import parse_spec
from bench_run.errors import BenchRunError
from bench_run.plan.engines import engine_texts, plan_engines
from bench_run.worker.parent.start import Templates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.options import Options


@contextmanager
def early_templates(options: Options) -> Iterator[Templates]:
    """Those of the engines that the options name are started; all of them end with the context."""
    templates = Templates(options.worker_start, options.timeout_s, {})
    try:
        with suppress(BenchRunError):
            texts, _ = engine_texts(options)
            for engine in plan_engines(options, [parse_spec(text) for text in texts]):
                if options.tuned is None and templates.are_used_by(engine):
                    templates.start(engine)
        yield templates
    finally:
        templates.close()
