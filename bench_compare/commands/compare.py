"""Compare documents: read, compare, render, write."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.packing import read_regular

from bench_compare.commands.files import check_reports, write, write_reports
from bench_compare.commands.outcome import CommandResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_compare.comparison.calibration import Calibration
    from bench_compare.model import Side, View, Word
    from bench_compare.options import CompareOptions

USAGE = """bench-compare: report what became faster, slower, broken or wrong.

Usage:
  bench-compare [options] [--metric=NAME]... [--threshold=T]...
                [--fail-on=WHAT]... [--allow=NAME]... [--label=NAME]...
                [--a=GLOB]... [--b=GLOB]... [DOC]...
  bench-compare --help
  bench-compare --version

DOC is a result document of bench-run (.json, .json.gz, .json.zst, or the
journal of an unfinished run), a folder of them, or a glob. Files of 16 other
tools are read as well, among them dnn-benchmarking, nvbench, Google Benchmark,
hyperfine and Triton (help tools). The first document is the base. Two documents
are compared with each other; of three and more, those with the same label are
repeats of one measurement. A single document is shown by itself: its cases,
what ran them, and what to know of them.

Examples:
  bench-compare run.json                           one run
  bench-compare before.json after.json             two runs
  bench-compare before*.json after*.json           repeats, by their --label
  bench-compare --a 'old/*.json' --b 'new/*.json'  repeats, by their folders
  bench-compare both.json --group-by engine        engines of one document
  bench-compare fleet.json --group-by unit         GPUs of one kind
  bench-compare a.json b.json --html diff.html     a page of charts
  bench-compare a.json b.json --threshold 2% --threshold init_ns=20%
  bench-compare --aa a.json                        can this machine gate builds?

Other questions, each with a --help of its own:
  bench-compare history                            what changed when
  bench-compare pages                              a site of an archive
  bench-compare compose                            a pipeline from its layers
  bench-compare export                             results for other tools
  bench-compare help [WORD]                        guides: comparing, ci, noise,
                                                   composition, document ...

Which documents are compared:
  --a GLOB              documents of the base, in place of DOC
  --b GLOB              documents of the other side
  --group-by HOW        label, tag:KEY, engine, unit (host and device), machine
                        or file (default: label, from three documents on)
  --base NAME           the side that the others are compared with (default: the
                        first)
  --label NAME          names of the sides for the reports, once for each in
                        order

What counts:
  --metric NAME         only this metric; may be given again (default: all)
  --threshold T         smallest change of interest: 1%, or METRIC=1% (default
                        1%)
  --policy FILE         TOML with thresholds per metric and graph, fail-on,
                        allow; flags win
  --fail-on WHAT        verdicts, metrics, 'suite', by commas, beside slower,
                        newly-unsupported and suite; 'only:WHAT' in their place;
                        'none' leaves broken, removed, wrong
  --require-sensitivity S  exit 1 unless nine of ten cases could have shown a
                        slow-down of S: 5%
  --max-unclear N       exit 1 where more cases are unclear: 3, or 10%
  --allow NAME[=WHAT]   a regression that is expected: a graph's name, a glob of
                        it, or a fingerprint; WHAT is a verdict. Or a setting
                        that differs: timer, cache, 'device kind'
  --allow-no-answer     exit 0 where there is no answer (UNDECIDED): on a
                        laptop, or another machine that is known to be noisy
  --strict              exit 1 where settings that must agree differ, whatever
                        is allowed, or a name means two graphs
  --aa                  all DOC are one build: measure the rate of false alarms,
                        gate nothing; with --group-by engine: of copies of one
                        engine in one run
  --save-calibration FILE  with --aa: what documents of one build differ by on
                        this machine
  --calibration FILE    use it where each side is a single document
  --archive DIR         learn it from earlier documents of this machine instead

What to show:
  --all                 also unchanged and unclear cases
  --sort ORDER          news, ratio, difference, name, family, time or document
                        (default news)
  --exit-codes CODES    commands of hyperfine that ended so ended well: 0,1
  --filter TEXT         only cases whose name, family, engine or verdict has
                        each word of TEXT, or fits it as a glob
  --color WHEN          auto, always or never (default auto)

Where to write ('-' is stdout, in place of the table):
  --markdown FILE       for a pull request
  --csv FILE            one row a case and metric
  --json FILE           everything, also for bench-run --rerun-from
  --junit FILE          each case a test
  --html FILE           one page with charts that opens offline
  --figures DIR         each figure of the page as JSON that plotly opens
  --plotlyjs HOW        plotly.js of the page: inline (basic charts, 1.2 MB),
                        full (all charts, 4.8 MB, for a page that you extend)
                        or cdn (from the network) (default inline)
  -q, --quiet           only the last line: PASS, FAIL or UNDECIDED, and why
  -h, --help            this text
  --version             the version

The last line says PASS (exit code 0), FAIL (2: slower, broken, removed, wrong,
lost ...) or UNDECIDED (1: nothing in common, all unclear, a file passed over,
settings that differ); exit code 1 also for what cannot be read. A single
document: 2 where a case failed, outputs differ or a time is implausible; 1
where a time is missing. In GitHub Actions the line is an annotation, too.
"""


def answer(arguments: Mapping[str, Any], width: int, terminal: bool) -> CommandResult:
    """Run the command with docopt's arguments. Raises `BenchCompareError` or `DocumentError` if
    there is nothing to show."""
    from bench_compare.options import parse_options

    options = parse_options(arguments)
    _check_files(options, arguments["--policy"])
    return _answer(options, width, terminal)


def _answer(options: CompareOptions, width: int, terminal: bool) -> CommandResult:
    from bench_compare.input.load import load
    from bench_compare.input.sides import group, missing_on_units, pair

    if options.aa:
        if options.outputs:
            from bench_compare.errors import UsageError

            raise UsageError(f"--aa writes no reports: leave out --{next(iter(options.outputs))}")
        return _aa_test(options)
    from bench_compare.model import View

    plain = not terminal or "NO_COLOR" in os.environ
    color = {"auto": not plain, "always": True, "never": False}[options.color]
    view = View(
        width=width,
        color=color,
        all=options.all,
        sort=options.sort,
        filter=options.filter,
        plotlyjs=options.plotlyjs,
    )
    if options.a:
        a, first = load(options.a, options.exit_codes)
        b, second = load(options.b, options.exit_codes)
        base, other = pair(a, b, options.grouping.labels)
        return _compared(options, view, (base, [other]), [*first, *second])
    sources, remarks = load(options.documents, options.exit_codes)
    if len(sources) == 1 and options.shows_one:
        source = sources[0]
        # A single document, which nothing is held against.
        from bench_compare.report.single import ShownRun, report_of

        run = ShownRun(source, replace(options.invocation, passed_over=tuple(remarks)))
        report = report_of(run, view)
        return write_reports(
            options.outputs, report, view, remarks, quiet=options.quiet, problems=run.problems
        )
    sides = group(sources, options.grouping)
    if options.grouping.by == "unit":
        remarks = [*remarks, *missing_on_units(sources)]
    return _compared(options, view, sides, remarks)


def _check_files(options: CompareOptions, policy: str | None) -> None:
    from bench_schema.places import Place

    calibration = options.save_calibration
    outputs = {**options.outputs, **({"save-calibration": calibration} if calibration else {})}
    given = {
        "DOC": options.documents,
        "--a": options.a,
        "--b": options.b,
        "--archive": (options.archive,) if options.archive else (),
    }
    index = None
    if options.archive is not None:
        from bench_compare.history.index import NAME

        index = os.path.join(options.archive, NAME)
    files = {"--policy": policy, "--calibration": options.calibration, "--archive": index}
    check_reports(
        outputs,
        [(flag, pattern) for flag, patterns in given.items() for pattern in patterns],
        [Place(flag, path) for flag, path in files.items() if path],
    )


def _aa_test(options: CompareOptions) -> CommandResult:
    from bench_compare.comparison.aa_test import aa_test
    from bench_compare.input.load import load
    from bench_compare.model import Conclusion

    sources, remarks = load(options.documents or (*options.a, *options.b))
    sides = None
    if options.grouping.by is not None:
        from bench_compare.input.sides import group

        base, others = group(sources, options.grouping)
        sides = [(base, other) for other in others]
    alarms = aa_test(sources, options.policy, sides)
    if options.save_calibration is not None:
        from bench_compare.comparison.calibration import calibrate, to_json

        write(Path(options.save_calibration), to_json(calibrate(sources)).decode())
    word: Word = "PASS" if alarms.trusted else "UNDECIDED"
    allowed = options.invocation.allow_no_answer
    conclusion = Conclusion(word, alarms.sentence, allowed=allowed)
    return CommandResult(conclusion.line, conclusion, () if options.quiet else tuple(remarks))


def _compared(
    options: CompareOptions, view: View, sides: tuple[Side, list[Side]], remarks: list[str]
) -> CommandResult:
    from bench_compare.comparison.compare import compare
    from bench_compare.comparison.news import unused_allowances
    from bench_compare.report.compare import report_of

    base, others = sides
    calibration, more = _known(options)
    comparison = compare(base, others, options.policy, calibration)
    without: tuple[str, ...] = ()
    if options.archive is not None and calibration is None:
        without, more = tuple(more), []
    comparison = replace(
        comparison,
        warnings=(*without, *comparison.warnings),
        invocation=replace(options.invocation, passed_over=tuple(remarks)),
    )
    more += unused_allowances(comparison.cases, options.policy)
    return write_reports(
        options.outputs,
        report_of(comparison, view),
        view,
        [*remarks, *more],
        quiet=options.quiet,
        problems=comparison.problems,
        comparison=comparison,
    )


def _known(options: CompareOptions) -> tuple[Calibration | None, list[str]]:
    """Return the stored calibration for documents of one build, and remarks on its source."""
    from bench_compare.errors import InputError

    if options.calibration is not None:
        from bench_compare.comparison.calibration import from_json

        where = f"--calibration: {options.calibration}"
        try:
            return from_json(read_regular(options.calibration), where), []
        except OSError as error:
            raise InputError(f"{where}: {error.strerror or error}") from None
    if options.archive is None:
        return None, []
    from bench_compare.history.calibration import learned

    folder = Path(options.archive)
    if not folder.is_dir():
        raise InputError(f"--archive: {folder}: no such folder")
    try:
        return learned(folder)
    except InputError as error:  # it has too few documents
        return None, [f"{error}; compared without what it would tell of run-to-run variation"]
