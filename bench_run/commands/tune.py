"""`bench-run tune`: the best variant of every graph, in a record that a later run can use."""

from __future__ import annotations

from bench_run.commands import CommandOutput, command_line, said_once
from bench_run.commands.usage import FLAGS, TUNE_FLAGS, entries, repeatable

TYPE_CHECKING = False  # keeps --help fast
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


SHARED = [row for row in FLAGS.values() if row.tune]

USAGE = f"""Try the variants of every graph, choose the best, and keep a record of all.

Usage:
  bench-run tune [options] {repeatable((*TUNE_FLAGS.values(), *SHARED))} [GRAPH]...

What is tried, and for what:
{entries(TUNE_FLAGS.values())}  -o, --output FILE     the record (default tuned.json)

With a record in place of the first GRAPH:
  --show                print it as a table
  --verify              measure default against winner, nothing else; exit code
                        2 where a winner is not shown to be faster
  --export KIND:FILE    hipdnn:FILE (engine override file) or tunableop:FILE

As for a run:
{entries(SHARED)}
Examples:
  bench-run tune suite:smoke --space engine=numpy,torch --space layout=nchw,nhwc
  bench-run tune suite:resnet50 --engine cudnn --space plan=all -o resnet.json
  bench-run tune --show resnet.json
  bench-run tune --verify resnet.json
  bench-run suite:resnet50 --tuned resnet.json

All candidates are measured in two short rounds, each in a process of its own.
Those near the fastest, and the default, are then measured as by an ordinary
run, in up to four times as many rounds: until none may gain more than the
margin over the default, or the fastest is known. Of those within the margin
the default is taken, else what is deterministic, more exact, or needs less
workspace. The record is a result document, for bench-compare as well.

Exit codes: 0 success; 1 usage error, or no graph could be tuned; 2 --verify
found a winner that is not faster.
"""


def answer(arguments: Mapping[str, Any]) -> CommandOutput:
    """Tune and answer. Raises `BenchRunError` and `DocumentError` if it cannot write a record."""
    from bench_run.errors import UsageError

    asked = [name for name in WITH_RECORD if arguments[name]]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)}: give one of them")
    if asked:
        if not arguments["GRAPH"]:
            raise UsageError(f"{asked[0]} needs the record: bench-run tune {asked[0]} tuned.json")
        record, *graphs = arguments["GRAPH"]
        return WITH_RECORD[asked[0]](record, {**arguments, "GRAPH": graphs})
    return tune_graphs(arguments)


def tune_graphs(arguments: Mapping[str, Any]) -> CommandOutput:
    from bench_run.options.read import read_options
    from bench_run.report.tuning import tuning_table
    from bench_run.tune.settings import read_tuning
    from bench_run.tune.stages import finished, tune

    options = read_options({**arguments, "--output": arguments["--output"] or "tuned.json"})
    tuning = read_tuning(arguments, options)
    record = finished(tuning) if options.resume else None
    remarks: tuple[str, ...] = ()
    if record is not None:
        remarks = (f"{tuning.record}: the tuning is finished: nothing is measured or changed",)
    else:
        record = tune(options, tuning, command_line())
        if record is None:
            return CommandOutput("", 1)
        remarks = tuple(said_once(record, "CUPTI does not"))
    return CommandOutput("" if options.quiet else tuning_table(record), 0, remarks)


def show_record(path: str, _arguments: Mapping[str, Any]) -> CommandOutput:
    from bench_run.plan.tuned import read_record
    from bench_run.report.tuning import tuning_table

    return CommandOutput(tuning_table(read_record(path, "--show").document))


def verify_record(path: str, arguments: Mapping[str, Any]) -> CommandOutput:
    from bench_schema.places import Place

    from bench_run.options.read import read_options
    from bench_run.report.tuning import verified_table
    from bench_run.runner.places import check_run_places
    from bench_run.tune.verify import verify

    options = read_options(arguments)
    check_run_places(options, [Place("the record", path)])
    found = verify(path, options, command_line())
    if not found:
        return CommandOutput("the winner of every entry is the default: there is nothing to verify")
    rows = [(each.name, each.recorded, each.measured, each.problem) for each in found]
    fine = all(each.holds for each in found)
    return CommandOutput(verified_table(rows, [each.holds for each in found]), 0 if fine else 2)


def export_record(path: str, arguments: Mapping[str, Any]) -> CommandOutput:
    from dataclasses import replace

    from bench_schema.places import Place, check_places

    from bench_run.errors import UsageError
    from bench_run.files import write_text_file, writing
    from bench_run.options.read import read_options
    from bench_run.plan.tuned import record_graphs
    from bench_run.runner.places import inputs_of, outputs_of
    from bench_run.tune.export import export, refuse_unknown_kind

    kind, colon, target = arguments["--export"].partition(":")
    if not colon or not target:
        raise UsageError(f"--export: expected KIND:FILE, got {arguments['--export']!r}")
    refuse_unknown_kind(kind)
    options = read_options({**arguments, "--export": None})
    with writing(target):
        place = Place("--export", target, is_report=True)
        others = outputs_of(replace(options, output=None))
        check_places((*inputs_of(options), Place("the record", path)), [place, *others])
    from bench_run.options import Sources, grouped

    record, graphs = record_graphs(path, grouped(Sources, options))
    made = export(kind, record, graphs)
    write_text_file(target, made.text)
    return CommandOutput("", 0, made.notes)


WITH_RECORD = {"--show": show_record, "--verify": verify_record, "--export": export_record}
