"""The command line of bench-run: words into options, a document into an exit code."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing costs half of what --help takes
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from bench_schema.document import Document

    from bench_run.options import Options

USAGE = """bench-run: execute hipDNN operation graphs on an engine, validate, time, record.

Usage:
  bench-run doctor
  bench-run [options] [--engine=SPEC]... [--op=SPEC]... [--miopen-driver=LINE]...
            [--tag=KV]... [--knob=KV]... [--init=RULE]... [--plugin-path=DIR]... [GRAPH]...
  bench-run --list-engines [options] [--engine=SPEC]... [--plugin-path=DIR]... [GRAPH]...
  bench-run --coverage [options] [--engine=SPEC]...
  bench-run --describe [options] [--engine=SPEC]... [--op=SPEC]... [--miopen-driver=LINE]...
            [GRAPH]...
  bench-run --help
  bench-run --version

GRAPH is a graph file, a folder (searched for graphs), a glob, an archive (.tar .tar.gz .tgz
.tar.bz2 .tar.xz .zip) or a suite file.

Examples:
  bench-run graphs/smoke                              the table on the terminal
  bench-run graphs/ -o run_a.json                     and the result document
  bench-run graphs/gemm --engine numpy --engine torch two engines, interleaved
  bench-run --op 'conv_fwd: n=32 c=128 h=28 w=28 k=256 r=3 s=3 pad=1 dtype=half layout=nhwc'
  bench-run g.json --a hipdnn:MIOPEN_ENGINE@/old --b hipdnn:MIOPEN_ENGINE@/new

What to run:
  --op SPEC             make graphs from nothing: an operation, 'family:activations' or 'all'
  --miopen-driver LINE  a MIOpenDriver command line, or a file of such lines or logs
  --shapes SET          default shapes of --op: small, common, large, skewed, all (default common)
  --direction D         fwd, bwd or both, for --op
  --scale-batch N       cut the batch of every graph to at most N
  --save-graphs DIR     write what --op and --miopen-driver made as graph files
  --rerun-from FILE     only the cases that a bench-compare JSON calls slower or unclear
  --dry-run             list the cases and stop
  --describe            what the graphs are: operations, shapes, work, who takes them
  --diagram FILE        with --describe: draw the graph (.svg or .html)

Where:
  -e, --engine SPEC     name[:id][+option][@plugin path]; several are interleaved (default auto)
  --a SPEC              with --b: two engines, B validated against A, shown side by side
  --b SPEC              the other one
  --AId ID              the same for ids of hipDNN plugin engines: id of A
  --BId ID              id of B
  --APath P             path of A's plugin
  --BPath P             path of B's plugin
  --list-engines        every engine: whether it can run here, and how to get it
  --coverage            which operations engines take (default numpy and torch), by trying
  --device N            which accelerator, several as in 0,2, or all (default 0); they take turns,
                        since they share power, host and bus; one engine: ENGINE+device=N
  --knob KEY=VALUE      a setting of the engine
  --plugin-path DIR     folder of hipDNN plugins
  --plugin-mode MODE    absolute (only these plugins) or additive (default absolute)
  --hipdnn-prefix DIR   installation prefix in which hipdnn_frontend is looked for
  --math MODE           fp32 (strict), tf32 or fast (default fp32)

How to measure:
  --warmup N            iterations before the samples, each round (default 10)
  --iters N             samples of a case, split over the rounds (default 100)
  --rounds N            fresh visits in fresh processes and a new order (default 5)
  --min-time S          go on until the samples of a case sum up to S seconds
  --max-time S          seconds of samples a case may take; 'none' for no limit (default 10)
  --precision P         add rounds until the median is known to P, such as 1%
  --max-rounds N        most rounds that --precision may use (default 30)
  --timeout S           seconds until a silent case is stopped (default 300)
  --build-timeout S     seconds that an engine may build or plan (default 60 for each variant of
                        ENGINE:all, else as long as --timeout)
  --timer T             auto, events, cupti or host (default auto)
  --cache C             hot, cold or rotate (default hot)
  --duty D              cool (rests between blocks) or sustained (default cool)
  --replay              capture the work once and replay it
  --energy              joules of an iteration, from a pass of a second after each round's samples
  --executions N        executions in one sample, for very short kernels (default 1)
  --seed N              seed of inputs and order (default 0)
  --init RULE           [NAME=]normal|uniform|integers|constant:V|file:PATH
  --trace FILE          Chrome trace of some iterations, in a separate pass
  --counters SET        hardware counters, in a separate pass

How to validate:
  --reference R         auto, numpy, torch, golden, none or an engine (default auto)
  --tolerance T         default or hipdnn: the table of allowed errors
  --rtol X              allowed error relative to the expected value, for every output
  --atol X              allowed absolute error
  --golden DIR          folder with golden tensors
  --write-golden DIR    write inputs and reference outputs as golden tensors; 'hipdnn:DIR' for
                        hipDNN's own kind of files
  --mismatches N        worst mismatches to record per output (default 5)
  --check-budget S      seconds a round may spend on checking timed iterations (default 0.2)
  --save-outputs DIR    keep the outputs of the first run

What to write:
  -o, --output FILE     result document (.json, .json.gz, .json.zst)
  --csv FILE            one row a case
  --csv-samples FILE    one row an iteration
  --markdown FILE       a table for a ticket; '-' writes any of these to stdout
  --label NAME          what this run is; documents of one label are repeats of one thing
  --tag KEY=VALUE       anything else to remember
  --resume              go on with the unfinished run in the output file
  --config FILE         TOML with any of these settings; flags win
  -q, --quiet           no progress and no table
  -v, --verbose         the statistics of every case
  -h, --help            this text
  --version             the version

Exit codes: 0 all is well; 1 usage, unreadable input, no device, an engine or the reference that
was named failed; 2 outputs differ from the reference.
"""


def entry() -> None:
    """The console script."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Exit code for these words. Nothing but the answer goes to stdout; no traceback for bad
    input."""
    if "--help" in argv or "-h" in argv:
        return _say(USAGE)  # before anything is imported
    from docopt import DocoptExit, docopt

    try:
        arguments = docopt(USAGE, argv=list(argv), default_help=False)
    except DocoptExit:
        return _usage_error(argv)
    if arguments["--version"]:
        from bench_run.runner.benchmark import VERSION

        return _say(f"bench-run {VERSION}")
    return _guarded(arguments)


def _guarded(arguments: Mapping[str, Any]) -> int:
    from bench_schema.errors import DocumentError

    from bench_run.errors import BenchRunError
    from bench_run.progress import complain

    try:
        return _dispatch(arguments)
    except (BenchRunError, DocumentError) as error:
        complain(str(error))
        return 1
    except KeyboardInterrupt:
        complain("interrupted")
        return 1
    except BrokenPipeError:
        sys.stdout = None  # the reader has gone; Python must not flush into it on exit
        return 1


def _dispatch(arguments: Mapping[str, Any]) -> int:
    actions: dict[str, Callable[[Mapping[str, Any]], int]] = {
        "--list-engines": _list_engines,
        "--describe": _describe,
        "--coverage": _coverage,
        "doctor": _doctor,
        "--dry-run": _dry_run,
    }
    for word, action in actions.items():
        if arguments.get(word):
            return action(arguments)
    return _run(arguments)


def _say(text: str) -> int:
    """Put the answer on stdout."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    return 0


def _usage_error(argv: Sequence[str]) -> int:
    """One line that names the first word that is not understood."""
    from bench_run.commands.suggest import unknown_flag
    from bench_run.options import FLAGS
    from bench_run.progress import complain

    unknown = unknown_flag(argv, USAGE, FLAGS)
    complain(unknown or "these words make no command line; see bench-run --help")
    return 1


def _list_engines(arguments: Mapping[str, Any]) -> int:
    from bench_run.commands.listing import engine_list
    from bench_run.options import read_options

    return _say(engine_list(read_options(arguments)))


def _describe(arguments: Mapping[str, Any]) -> int:
    from bench_run.commands.listing import descriptions
    from bench_run.options import read_options

    return _say(descriptions(read_options(arguments), arguments["--diagram"]))


def _coverage(arguments: Mapping[str, Any]) -> int:
    from bench_run.commands.listing import coverage
    from bench_run.options import read_options

    return _say(coverage(read_options(arguments)))


def _doctor(_: Mapping[str, Any]) -> int:
    from bench_run.commands.doctor import doctor

    return _say(doctor())


def _dry_run(arguments: Mapping[str, Any]) -> int:
    from bench_run.commands.listing import case_list
    from bench_run.options import read_options

    return _say(case_list(read_options(arguments)))


def _run(arguments: Mapping[str, Any]) -> int:
    from bench_run.options import read_options
    from bench_run.runner.benchmark import command_line, run_benchmark

    options = read_options(arguments)
    from bench_run.progress import complain

    document = run_benchmark(options, command_line())
    _write(options, document)
    missed = unchecked(document)
    if missed is not None:
        complain(missed)
    if options.energy:
        for note in unmet(document, "--energy"):
            complain(note)
    return exit_code(document)


def _write(options: Options, document: Document) -> None:
    from bench_run.report.console import details, side_by_side, table
    from bench_run.runner.record import writing

    exported = {name: getattr(options, name) for name in ("csv", "csv_samples", "markdown")}
    targets = {name: path for name, path in exported.items() if path is not None}
    if targets:
        from bench_run.report.formats import FORMATS

        for name, path in targets.items():
            text = FORMATS[name](document)
            if path == "-":
                _say(text)
                continue
            with writing(path), open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text)
    if options.quiet or "-" in targets.values():
        return
    if options.verbose:
        _say(details(document))
    paired = options.a is not None and not any(case.variant for case in document.cases)
    _say(side_by_side(document) if paired else table(document))


def exit_code(document: Document) -> int:
    """0 all is well; 2 some output is wrong; 1 some case gave no answer, or none completed, or the
    reference that was named could not check some case."""
    validations = [case.validation for case in document.cases if case.validation is not None]
    if any(validation.status == "failed" for validation in validations):
        return 2
    statuses = [case.outcome.status for case in document.cases]
    fine = all(status in ("completed", "unsupported") for status in statuses)
    answered = fine and "completed" in statuses and document.run.complete
    return 0 if answered and unchecked(document) is None else 1


def unchecked(document: Document) -> str | None:
    """A line where cases could not be held against the reference that was named, with the first of
    them; ``auto`` names none."""
    asked = document.run.settings.reference
    if asked in ("auto", "none"):
        return None
    completed = [case for case in document.cases if case.outcome.status == "completed"]
    checks = [(case.id, case.validation) for case in completed if case.validation is not None]
    missed = [(name, check.reason) for name, check in checks if check.status == "not checked"]
    if not missed:
        return None
    name, reason = missed[0]
    count = f"{len(missed)} of {len(completed)} cases were not checked"
    return f"--reference {asked}: {count}: {reason} ({name})"


def unmet(document: Document, flag: str) -> dict[str, None]:
    """What cases say of a flag that could not be followed, each sentence once."""
    notes = (note for case in document.cases for note in case.notes)
    return dict.fromkeys(note for note in notes if note.startswith(f"{flag}:"))
