"""Compose a pipeline from measured layers: read, choose, predict, render, write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_compare.commands.files import check_reports, write, write_reports
from bench_compare.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_compare.commands.outcome import CommandResult
    from bench_compare.compose.setup import Question

USAGE = """bench-compare compose: what a whole pipeline would take, from its layers.

Usage:
  bench-compare compose [options] [--fix=FIX]... [--limit=LIMIT]...
                        [--engine=NAME]... [--against=DOC]... [PIPELINE]
                        [DOC]...
  bench-compare compose --help
  bench-compare compose --version

PIPELINE is a suite file of bench-run (.toml). DOC are result documents of one
device, settings and libraries that hold its layers: of a run of the pipeline,
of 'bench-run PIPELINE --seams' (which measures the pairs of neighbours too), of
a tuning, and of conversions (bench-run --op 'convert: ...'). Nothing is run.
What was not measured is answered with the command line that measures it.

Examples:
  bench-compare compose net.toml parts.json
  bench-compare compose net.toml parts.json plans.json --choose time
  bench-compare compose net.toml plans.json --fix 'conv1=cudnn:plan=eng6_k2=1'
  bench-compare compose net.toml parts.json --against chain.json

What is composed:
  --baseline NAME       what the answer is held against: an engine, whose own
                        choice counts, or a configuration as in --fix (default:
                        the first engine that has all layers)
  --choose WHAT         the best rows by time or energy; without it each layer
                        runs as the baseline does
  --within SHARE        of a choice by energy: the time that it may take over
                        the least, as in 5%
  --limit LIMIT         error=1e-3: root of the squares of the layers' relative
                        L2 errors; worst-error=1e-3: their sum
  --fix FIX             LAYER=CONFIGURATION, both may be globs:
                        'conv*=cudnn:plan=eng6*'
  --engine NAME         only rows of this engine; may be a glob, and given again
  --cache STATE         only rows of this cache state predict (default: pass,
                        else that of a measured chain, weights-cold, hot ...)
  --metric NAME         device_ns or e2e_ns (default: device time where every
                        row has it)

Whether it holds:
  --against DOC         documents of 'bench-run PIPELINE --chain': prediction and
                        measurement side by side; with '--chain --seams' DOC has
                        both from the same rounds

Where to write ('-' is stdout, in place of the text):
  --markdown FILE       for a pull request
  --csv FILE            one row a layer and way to run it: time, energy, error
  --json FILE           everything
  --html FILE           one page that opens offline: the slowest layers, the
                        choices of each layer
  --figures DIR         each figure of the page as JSON that plotly opens
  --tensors FILE        HPVM's table: a line '** LAYER 1' with the names of
                        columns (fp32_time fp32_energy f2h_time ...), and one
                        with milliseconds and millijoules
  --save FILE           the chosen plans as a pipeline for bench-run --chain

Many at once:
  --configurations FILE
                        a file of blocks '+++++', 'NAME SPEED-UP ENERGY ...', a
                        line a layer ('1 gpu conv fp16 12' or 'conv*=cudnn'),
                        '-----'; the first one is the baseline
  --space FILE          the table of knobs that its ids stand for: a line
                        'samp,31 1,1,2,0' each
  -o, --output FILE     a copy of the file with real speed-ups and reductions of
                        energy
  -q, --quiet           only the last line
  -h, --help            this text
  --version             the version

The last line says PASS (exit code 0), FAIL (2: a measured chain differs from
its prediction by more than 3 %, or 6 % of end-to-end time, and noise) or
UNDECIDED (1: rows are missing, documents are not of one device or one way of
measuring, a file was passed over, too few rounds to tell whether a chain
differs).
"""
OUTPUTS = ("markdown", "csv", "json", "html", "figures")
CHOICES = ("time", "energy")
LIMITS = ("error", "worst-error")
METRICS = ("device_ns", "e2e_ns")
CACHES = ("hot", "cold", "rotate", "weights-cold", "pass")


@dataclass(frozen=True)
class ComposeOptions:
    pipeline: Path
    documents: tuple[str, ...]
    against: tuple[str, ...]
    asked: Mapping[str, Any]
    """Fields of `Question` that flags set."""
    outputs: Mapping[str, str]
    save: Path | None
    tensors: str | None
    quiet: bool


def answer(arguments: Mapping[str, Any], width: int, terminal: bool) -> CommandResult:  # noqa: ARG001
    """Run the command with docopt's arguments. Raises `BenchCompareError` if there is nothing to
    show."""
    from bench_schema.places import Place, pipeline_files

    from bench_compare.model import View
    from bench_compare.report.compose import conclude, report_of

    options = parse(arguments)
    if arguments["--configurations"] is not None:
        for flag in ("--save", "--tensors"):
            if arguments[flag] is not None:
                raise UsageError(f"{flag} does not go with --configurations FILE: one at a time")
        return _configurations(options, arguments, width)
    for flag in ("--space", "--output"):
        if arguments[flag] is not None:
            raise UsageError(f"{flag} goes with --configurations FILE")
    files = pipeline_files(options.pipeline)
    saved = {} if options.save is None else {"save": str(options.save)}
    if options.tensors is not None:
        saved["tensors"] = options.tensors
    documents = {"DOC": options.documents, "--against": options.against}
    check_reports(
        {**options.outputs, **saved},
        [(flag, pattern) for flag, patterns in documents.items() for pattern in patterns],
        [Place("PIPELINE", str(path)) for path in (options.pipeline, *files)],
    )
    from bench_compare.compose.answer import answer as compose
    from bench_compare.compose.setup import Setup

    question, remarks = read_question(options)
    setup = Setup(question)
    composition, picks = compose(setup)
    if options.save is not None and picks is not None:
        from bench_compare.compose.export import export

        write(options.save, export(setup, picks, options.save))
    view = View(width=width)
    report = report_of(composition, conclude(composition, remarks))
    if options.tensors is not None:
        from bench_compare.commands.outcome import CommandResult as Result
        from bench_compare.report.compose import tensor_table

        text = tensor_table(composition)
        if options.tensors == "-":
            said = (*remarks, *composition.problems)
            return Result(text.rstrip("\n"), report.conclusion, remarks=said, is_document=True)
        write(Path(options.tensors), text)
    return write_reports(
        options.outputs,
        report,
        view,
        remarks,
        quiet=options.quiet,
        problems=composition.problems,
    )


def _configurations(
    options: ComposeOptions, arguments: Mapping[str, Any], width: int
) -> CommandResult:
    """Return a copy of a file of configurations, with what each of them takes."""
    from bench_schema.knobs import KnobError, read_knobs

    from bench_compare.compose.configurations import read_blocks, rewritten, simulate
    from bench_compare.model import View
    from bench_compare.report.compose import configurations_report

    where, target = arguments["--configurations"], arguments["--output"]
    documents = [(flag, d) for flag, d in (("DOC", d) for d in options.documents)]
    given = [("PIPELINE", str(options.pipeline)), ("--configurations", where), *documents]
    check_reports({**options.outputs, **({} if target is None else {"output": target})}, given, [])
    text = _text_of(where, "--configurations")
    try:
        table = arguments["--space"]
        knobs = () if table is None else read_knobs(_text_of(table, "--space"))
    except KnobError as error:
        raise InputError(f"--space {table}: {error}") from error
    question, remarks = read_question(options)
    blocks = read_blocks(text, where)
    found = simulate(question, blocks, knobs, where)
    if target is not None and target != "-":
        write(Path(target), rewritten(text, blocks, found))
    if target == "-":
        from bench_compare.commands.outcome import CommandResult as Result

        report = configurations_report(options.pipeline.stem, found)
        whole = rewritten(text, blocks, found).rstrip("\n")
        return Result(whole, report.conclusion, remarks=tuple(remarks), is_document=True)
    return write_reports(
        options.outputs,
        configurations_report(options.pipeline.stem, found),
        View(width=width),
        remarks,
        quiet=options.quiet,
    )


def _text_of(path: str, flag: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{flag} {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{flag} {path}: it is not text") from error


def parse(arguments: Mapping[str, Any]) -> ComposeOptions:
    from bench_compare.options import outputs_of

    outputs = outputs_of(arguments, OUTPUTS)
    if not arguments["PIPELINE"]:
        raise UsageError("no pipeline given: a suite file in .toml, see --help")
    pipeline: str = arguments["PIPELINE"]
    documents: list[str] = arguments["DOC"]
    swapped = next((one for one in documents if one.endswith(".toml")), None)
    if swapped is not None and not pipeline.endswith(".toml"):
        raise UsageError(f"the pipeline comes first: bench-compare compose {swapped} {pipeline}")
    if not documents:
        raise UsageError("no document given: result documents that hold the layers, see --help")
    choose = _one_of("--choose", arguments["--choose"], CHOICES)
    within = arguments["--within"]
    if within is not None:
        if choose != "energy":
            raise UsageError("--within goes with --choose energy: --choose time is the least time")
        within = parse_share(within)
    return ComposeOptions(
        pipeline=Path(arguments["PIPELINE"]),
        documents=tuple(arguments["DOC"]),
        against=tuple(arguments["--against"]),
        asked={
            "engines": tuple(arguments["--engine"]),
            "baseline": arguments["--baseline"],
            "choose": choose,
            "within": within,
            "limits": dict(map(parse_bound, arguments["--limit"])),
            "fixes": tuple(map(parse_fix, arguments["--fix"])),
            "cache": _one_of("--cache", arguments["--cache"], CACHES),
            "series": _one_of("--metric", arguments["--metric"], METRICS),
        },
        outputs=outputs,
        save=None if arguments["--save"] is None else Path(arguments["--save"]),
        tensors=arguments["--tensors"],
        quiet=arguments["--quiet"],
    )


def _one_of(flag: str, value: str | None, choices: Sequence[str]) -> str | None:
    if value is not None and value not in choices:
        raise UsageError(f"{flag}: {value!r}; choose from {', '.join(choices)}")
    return value


def parse_bound(text: str) -> tuple[str, float]:
    import math

    name, _, value = text.partition("=")
    if name not in LIMITS:
        raise UsageError(f"--limit: {text!r}; choose from {', '.join(f'{n}=X' for n in LIMITS)}")
    try:
        bound = float(value)
    except ValueError:
        bound = math.nan
    if not (bound > 0 and math.isfinite(bound)):
        raise UsageError(f"--limit {name}: a number above 0 is expected, not {value!r}")
    return name, bound


def parse_fix(text: str) -> tuple[str, str]:
    layer, _, configuration = text.partition("=")
    if not layer or not configuration:
        raise UsageError(f"--fix: expected LAYER=CONFIGURATION, got {text!r}")
    return layer, configuration


def parse_share(text: str) -> float:
    """Return the ratio of ``5%``, or of ``0.05``."""
    import math

    try:
        found = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < (100 if text.endswith("%") else 1):
        raise UsageError(f"--within: expected a share as in 5% or 0.05, not {text!r}")
    return found


def read_question(options: ComposeOptions) -> tuple[Question, list[str]]:
    """Return the question with its documents, and remarks on files that were passed over."""
    from bench_compare.compose.setup import Question as Asked
    from bench_compare.input.load import load
    from bench_compare.input.sides import refuse_twice

    sources, remarks = load(options.documents)
    against, more = load(options.against)
    refuse_twice(sources)
    refuse_twice(against)
    if not sources:
        raise InputError(f"{options.documents[0]}: no result document of bench-run in it")
    asked = Asked(tuple(sources), options.pipeline, tuple(against), **options.asked)
    return asked, [*remarks, *more]
