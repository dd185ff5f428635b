"""The command line of bench-compare: words into options, a comparison into an exit code."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.options import Options
    from bench_compare.session import Outcome

USAGE = """bench-compare: what became faster, slower, broken or wrong, and how sure that is.

Usage:
  bench-compare [options] [--metric=NAME]... [--threshold=T]... [--fail-on=WHAT]...
                [--allow=NAME]... [--label=NAME]... [--a=GLOB]... [--b=GLOB]... [DOC]...
  bench-compare --help
  bench-compare --version

DOC is a result document of bench-run (.json, .json.gz, .json.zst, or the journal of an unfinished
run), a folder of them, or a glob; results of AMD's dnn-benchmarking are read as well. The first
document is the base. Documents with one label are repeats of one thing and stand together.

Examples:
  bench-compare before.json after.json                 two runs
  bench-compare before*.json after*.json               repeats, when bench-run had --label
  bench-compare --a 'old/*.json' --b 'new/*.json'      repeats, told by where they lie
  bench-compare both.json --group-by engine            engines within one document
  bench-compare a.json b.json --html diff.html         a page of charts
  bench-compare a.json b.json --threshold 2% --threshold init_ns=20% --allow 'conv_old*'
  bench-compare --aa a.json                            may this machine be trusted to gate?

What stands against what:
  --a GLOB              documents of the base, in place of DOC
  --b GLOB              documents of the other side
  --group-by HOW        label, tag:KEY, engine, machine or file (default label)
  --base NAME           the side that the others are held against (default: the first)
  --label NAME          names of the sides for the reports, once for each in order

What counts:
  --metric NAME         only this metric; may be given again (default: all there are)
  --threshold T         smallest change of interest: 1%, or METRIC=1% (default 1%)
  --policy FILE         TOML with thresholds per metric and graph, fail-on, allow; flags win
  --fail-on WHAT        verdicts, metrics, 'suite', by commas; 'none' leaves broken, removed, wrong
                        (default slower,newly-unsupported,suite)
  --allow NAME[=WHAT]   bad news that is expected: a graph's name or a glob of it
  --center WHEN         take the suite's common movement out: auto, on or off (default auto)
  --strict              settings that must agree, and same names that mean another graph: exit 1
  --aa                  all DOC are one build: measure the rate of false alarms, gate nothing

What to show:
  --all                 also the cases that are no news
  --sort ORDER          news, ratio, name, family, time or document (default news)
  --filter TEXT         only cases whose name, family, engine or verdict holds TEXT, or fits a glob
  --color WHEN          auto, always or never (default auto)

Where to write ('-' is stdout, in place of the table):
  --markdown FILE       for a pull request
  --csv FILE            one row a case and metric
  --json FILE           everything, also for bench-run --rerun-from
  --junit FILE          each case a test
  --html FILE           one page with charts that opens offline
  --plotlyjs HOW        inline or cdn, for the page (default inline)
  -q, --quiet           no table
  -h, --help            this text
  --version             the version

Exit codes: 0 no bad news; 2 slower, broken, removed or wrong; 1 no answer (unreadable, nothing in
common, unlike settings under --strict).
"""


def entry() -> None:
    """The console script."""
    gc.disable()  # what is made lives to the end
    kept: list[Outcome] = []
    code = main(sys.argv[1:], kept)
    if kept:  # all is written; taking a million values apart would last a fifth of a second
        os._exit(code)
    sys.exit(code)


def main(argv: Sequence[str], kept: list[Outcome] | None = None) -> int:
    """Exit code for these words. The answer goes to stdout, the conversation to stderr; bad input
    is one line there, never a traceback. What was told, all of it written, is put into `kept`."""
    if "--help" in argv or "-h" in argv:
        sys.stdout.write(USAGE)  # before anything is imported
        return 0
    try:
        return _guarded(argv, [] if kept is None else kept)
    except KeyboardInterrupt:
        _complain("interrupted")
        return 1
    except BrokenPipeError:
        sys.stdout = None  # nobody reads: do not flush into it on exit
        return 1


def _guarded(argv: Sequence[str], kept: list[Outcome]) -> int:
    from bench_schema.errors import DocumentError
    from docopt import DocoptExit, docopt

    from bench_compare.errors import BenchCompareError
    from bench_compare.options import parse_options

    try:
        arguments = docopt(USAGE, argv=list(argv), default_help=False)
    except DocoptExit:
        _complain(f"these words make no sense together: {' '.join(argv) or '(none)'}; see --help")
        return 1
    if arguments["--version"]:
        from importlib.metadata import version

        sys.stdout.write(f"bench-compare {version('dnn-bench')}\n")
        return 0
    try:
        return _run(parse_options(arguments), kept)
    except (BenchCompareError, DocumentError) as error:
        _complain(str(error))
        return 1


def _run(options: Options, kept: list[Outcome]) -> int:
    from bench_compare.session import answer

    outcome = answer(options, width=_width(), terminal=sys.stdout.isatty())
    for remark in outcome.remarks:
        _complain(remark)
    if outcome.text:
        sys.stdout.write(outcome.text if outcome.text.endswith("\n") else f"{outcome.text}\n")
        sys.stdout.flush()
    for problem in outcome.problems:
        _complain(problem)
    kept.append(outcome)
    return outcome.exit_code


def _width() -> int:
    from shutil import get_terminal_size

    return get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80


def _complain(sentence: str) -> None:
    """One line on stderr, whatever the sentence holds."""
    line = " ".join(sentence.split())
    shown = "".join(sign if sign.isprintable() else "�" for sign in line)
    sys.stderr.write(f"bench-compare: {shown}\n")
