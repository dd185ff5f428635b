"""`bench-run tune`: the best variant of every graph, in a record that a later run can use."""

from __future__ import annotations

from bench_run.commands.topics import entries

TYPE_CHECKING = False  # keeps --help fast
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from bench_run.commands.outcome import Outcome

SHARED = entries(
    "--op", "--miopen-driver", "--shapes", "--direction", "--scale-batch", "--sdpa-scale",
    "--engine", "--plugin-path", "--plugin-mode", "--hipdnn-prefix", "--device", "--knob",
    "--math", "--cache-dir", "--warm-caches",
    "--warmup", "--iters", "--rounds", "--max-time", "--timeout", "--build-timeout", "--timer",
    "--cache", "--duty", "--fresh", "--energy", "--reference", "--tolerance", "--rtol", "--atol",
    "--golden", "--check-budget", "--init", "--seed", "--resume", "--config", "--quiet", "--help",
)  # fmt: skip

USAGE = f"""Try the variants of every graph, choose the best, and keep a record of all.

Usage:
  bench-run tune [options] [--space=AXIS]... [--limit=RULE]... [--engine=SPEC]...
            [--op=SPEC]... [--miopen-driver=LINE]... [--knob=KV]...
            [--init=RULE]... [--plugin-path=DIR]... [GRAPH]...
  bench-run tune --show RECORD
  bench-run tune (-h | --help)

What is tried, and for what:
  --space AXIS          AXIS=VALUE,VALUE...; give it again for more axes:
                        engine=SPEC,...  dtype=half,bfloat16,...
                        layout=nchw,nhwc  math=fp32,tf32,fast  fusion=on,off
                        plan=all  knob:NAME=all (as the engine lists them)
  --scope SCOPE         layer: the best of each graph; global: one combination
                        for all graphs (default layer)
  --objective O         time, energy or edp, their product (default time)
  --limit RULE          error=X (relative L2), workspace=SIZE such as 256MiB, or
                        deterministic; candidates beyond it are left out
  --margin P            a gain that is worth leaving the default, and the
                        difference within which candidates are equal
                        (default 0.5%)
  --budget T            time for all of it, such as 90s, 10m or 2h
  -o, --output FILE     the record (default tuned.json)
  --document FILE       result document of the finalists (default beside the
                        record: tuned.document.json.gz)

With a record:
  --show                print it as a table

As for a run:
{SHARED}
Examples:
  bench-run tune suite:smoke --space engine=numpy,torch --space layout=nchw,nhwc
  bench-run tune suite:resnet50 --engine cudnn --space plan=all -o resnet.json
  bench-run tune --show resnet.json

Candidates race in one process, in short blocks, until it is clear which is
preferred. Finalists and the default are then measured as by an ordinary run;
only these times are shown. Candidates within the margin are equal: of these the
default is taken, else what is deterministic, more exact, needs less workspace.

Exit codes: 0 success; 1 usage error, or no graph could be tuned.
"""


def answer(arguments: Mapping[str, Any]) -> Outcome:
    """Raises `BenchRunError` and `DocumentError` where there is no record."""
    if arguments["--show"]:
        return _show(arguments["RECORD"])
    return _tune(arguments)


def _show(path: str) -> Outcome:
    from bench_schema.tuning_files import tuned_read

    from bench_run.commands.outcome import Outcome
    from bench_run.report.tuning import tuning_table

    return Outcome(tuning_table(tuned_read(path)))


def _tune(arguments: Mapping[str, Any]) -> Outcome:
    from bench_schema.tuning_files import tuned_save

    from bench_run.commands.outcome import Outcome
    from bench_run.files import writing
    from bench_run.options.read import read_options
    from bench_run.report.tuning import tuning_table
    from bench_run.runner.benchmark import command_line
    from bench_run.tune.record import make_record
    from bench_run.tune.settings import read_tuning
    from bench_run.tune.stages import tune

    options = read_options({**arguments, "--output": arguments["--output"] or "tuned.json"})
    tuning = read_tuning(arguments, options)
    tuned = tune(options, tuning, command_line())
    if tuned is None:
        return Outcome("", 1)
    record = make_record(tuned)
    with writing(tuning.record):
        tuned_save(tuning.record, record)
    return Outcome("" if options.quiet else tuning_table(record))
