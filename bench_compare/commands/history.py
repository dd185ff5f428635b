"""The history of an archive: index, analyse, render, write."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_compare.commands.files import check_reports, write_reports
from bench_compare.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_compare.commands.outcome import CommandResult
    from bench_compare.history.model import History

USAGE = """bench-compare history: what changed when in an archive of result documents.

Usage:
  bench-compare history [options] [ARCHIVE]...
  bench-compare history --help
  bench-compare history --version

ARCHIVE is a folder of result documents of bench-run, one or more a build, or
the documents themselves. A folder gets an index, history.sqlite, that can be
deleted at any time. A step is told from two documents of its new level on, of
one if it is far beyond all noise. It is placed and sized with 95 % intervals,
explained by what the documents record of driver, libraries, plugin, limits,
plans and environment, and fails the command until it is accepted in an events
file. Steps between units of hardware (a host's GPU) are never a build's steps.

Examples:
  bench-compare history results/                  what changed when
  bench-compare history results/ --by label       documents of a label: one build
  bench-compare history results/ --by commit --repo ~/src/kernels
  bench-compare history results/ --events accepted.toml --html trend.html

Which documents, in which order:
  --by HOW              what is a build: commit (of the tag 'commit', else of the
                        graphs' repository), label, tag:KEY, or started (each
                        document). Documents measured later join their build.
                        Default: commit where all have that tag and differ
  --repo PATH           git repository that orders the builds, in place of their
                        starts
  --metric NAME         device_ns, e2e_ns, init_ns … (default: of each case its
                        device time if it has any, else its end-to-end time)
  --filter TEXT         only cases whose name, family or engine has each word of
                        TEXT, or fits it as a glob
  --since WHEN          tell and gate only events of a build or day and later

What counts:
  --threshold T         smallest step of interest (default 1%)
  --events FILE         TOML: what is known and accepted (README.md)
  --fail-on WHAT        new-regression, unclear or none, by commas
                        (default new-regression)
  --allow-no-answer     exit 0 where there is no answer (UNDECIDED)

Where to write ('-' is stdout, in place of the text):
  --markdown FILE       for an issue
  --json FILE           everything, also for bench-run --rerun-from
  --junit FILE          each series a test
  --html FILE           one page with charts that opens offline
  --figures DIR         each figure of the page as JSON that plotly opens
  --next N              command lines that would decide most (default 3)
  -q, --quiet           only the last line
  -h, --help            this text
  --version             the version

The last line says PASS (exit code 0) and which slow-down may be hidden, FAIL
(2: slower, broken, wrong, unsupported, removed or no longer measured or
checked, and not accepted) or UNDECIDED (1: more documents decide; the command
is printed); exit code 1 also for what cannot be read.
"""
OUTPUTS = ("markdown", "json", "junit", "html", "figures")
FAIL_ON = ("new-regression", "unclear", "none")
DEFAULT_SUGGESTIONS = 3
MOST_REMARKS = 10


@dataclass(frozen=True)
class HistoryOptions:
    archive: tuple[str, ...]
    by: str | None
    repo: Path | None
    metric: str | None
    filter: str | None
    since: str | None
    threshold_ratio: float
    events: Path | None
    fail_on: frozenset[str]
    outputs: Mapping[str, str]
    suggestions: int
    quiet: bool
    allow_no_answer: bool


def answer(arguments: Mapping[str, Any], width: int, terminal: bool) -> CommandResult:  # noqa: ARG001
    """Run the command with docopt's arguments. Raises `BenchCompareError` if there is nothing to
    show."""
    options = parse(arguments)
    from bench_schema.places import Place

    from bench_compare.history.index import NAME

    indexes = [Place("ARCHIVE", os.path.join(path, NAME)) for path in options.archive]
    events = [] if options.events is None else [Place("--events", str(options.events))]
    archive = [("ARCHIVE", path) for path in options.archive]
    check_reports(options.outputs, archive, (*indexes, *events))
    from bench_compare.model import View
    from bench_compare.report.history import conclude, report_of

    history, remarks = read_history(options)
    view = View(width=width)
    if len(remarks) > MOST_REMARKS:
        remarks = [*remarks[:MOST_REMARKS], f"and {len(remarks) - MOST_REMARKS} more remarks"]
    conclusion = conclude(history, options.fail_on, allow_no_answer=options.allow_no_answer)
    return write_reports(
        options.outputs,
        report_of(history, conclusion),
        view,
        remarks,
        quiet=options.quiet,
        problems=history.problems,
    )


def parse(arguments: Mapping[str, Any]) -> HistoryOptions:
    from bench_compare.metrics import METRICS, PerRound, Sampled
    from bench_compare.options import outputs_of
    from bench_compare.policy import parse_ratio

    outputs = outputs_of(arguments, OUTPUTS)
    if not arguments["ARCHIVE"]:
        raise UsageError("no archive given: a folder of result documents, see --help")
    if arguments["--repo"] and (arguments["--by"] or "started") == "started":
        raise UsageError("--repo comes with --by commit, or another name of a build")
    name = arguments["--metric"]
    known = [key for key, row in METRICS.items() if isinstance(row.reading, Sampled | PerRound)]
    if name is not None and name not in known:
        raise UsageError(f"--metric: no metric {name!r} here; choose from {', '.join(known)}")
    gates = frozenset((arguments["--fail-on"] or FAIL_ON[0]).split(","))
    unknown = sorted(gates - set(FAIL_ON))
    if unknown:
        raise UsageError(f"--fail-on: {unknown[0]!r}; choose from {', '.join(FAIL_ON)}")
    suggestions = arguments["--next"]
    if suggestions is not None and not suggestions.isdecimal():
        raise UsageError(f"--next: a number is expected, not {suggestions!r}")
    return HistoryOptions(
        archive=tuple(arguments["ARCHIVE"]),
        by=arguments["--by"],
        repo=None if arguments["--repo"] is None else Path(arguments["--repo"]),
        metric=name,
        filter=arguments["--filter"],
        since=arguments["--since"],
        threshold_ratio=parse_ratio(arguments["--threshold"] or "1%", "--threshold"),
        events=None if arguments["--events"] is None else Path(arguments["--events"]),
        fail_on=gates,
        outputs=outputs,
        suggestions=DEFAULT_SUGGESTIONS if suggestions is None else int(suggestions),
        quiet=arguments["--quiet"],
        allow_no_answer=arguments["--allow-no-answer"],
    )


def read_history(options: HistoryOptions) -> tuple[History, list[str]]:
    """Return the history, and remarks on files and documents that were left out."""
    from bench_compare.history.accepted import place, place_of, read_entries
    from bench_compare.history.analysis import HistorySettings, analyse
    from bench_compare.history.archive import ArchiveFilter, read_archive

    entries = [] if options.events is None else read_entries(options.events)
    choice = ArchiveFilter(options.by, options.repo, options.metric, options.filter)
    archive, remarks = read_archive(options.archive, choice)
    accepted, unplaced = place(entries, archive.builds)
    since = 0 if options.since is None else place_of(options.since, archive.builds)
    if since is None:
        raise UsageError(f"--since: no build or day {options.since!r} in the archive")
    settings = HistorySettings(
        threshold_ratio=options.threshold_ratio,
        since=since,
        suggestions=options.suggestions,
    )
    history = analyse(archive, accepted, settings, unplaced)
    return history, [*remarks, *history.remarks]
