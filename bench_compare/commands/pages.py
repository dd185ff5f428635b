"""`bench-compare pages`: a site of an archive of result documents."""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench_compare.commands.files import make_folder, write
from bench_compare.commands.outcome import CommandResult
from bench_compare.errors import InputError, OutputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.report.model import Report

    from bench_compare.comparison.calibration import Calibration
    from bench_compare.history.model import BuildInfo, History
    from bench_compare.model import Comparison, Side, Source
    from bench_compare.policy import Policy
    from bench_compare.report.site import BuildEntry

USAGE = """bench-compare pages: a site of an archive of result documents.

Usage:
  bench-compare pages [options] [ARCHIVE]...
  bench-compare pages --help
  bench-compare pages --version

ARCHIVE is a folder of result documents, as for bench-compare history. The site
opens from a file or from any server:

  index.html     the newest state, and all builds
  history.html   what changed when, with charts
  newest.html    the newest build against the one before, with charts
  builds/        each build against the one before

Pages of builds that are there and complete are kept: a nightly call writes two
or three.

Examples:
  bench-compare pages results/ -o site/
  bench-compare pages results/ -o site/ --by commit --repo ~/src/kernels

Options:
  -o, --output DIR      folder of the site (needed)
  --by HOW              what is a build: commit, label, tag:KEY or started
                        (default: commit where all have that tag and differ)
  --repo PATH           git repository that orders the builds
  --threshold T         smallest change of interest (default 1%)
  --events FILE         TOML: what is known and accepted
  --force               write all pages anew
  -h, --help            this text
  --version             the version

The exit code is 0 when the site is written; bench-compare history gates.
"""
INDEX, HISTORY, NEWEST, STYLE, BUILDS = (
    *("index.html", "history.html", "newest.html", "style.css"),
    "builds",
)
LEAST_JOBS = 8
"""Pages that are worth processes of their own."""
COMMIT_CHARACTERS = 10
MOST_CHARACTERS = 32
"""Length of a build's name in the name of its page."""


@dataclass(frozen=True)
class Built:
    """A build with its documents."""

    info: BuildInfo
    sources: tuple[Source, ...]


def answer(arguments: Mapping[str, Any], width: int, terminal: bool) -> CommandResult:  # noqa: ARG001
    """Write the site. Raises `BenchCompareError` if there is nothing to show."""
    from bench_schema.places import Place, refuse_flag

    from bench_compare.commands.history import parse, read_history
    from bench_compare.model import View
    from bench_compare.report import render
    from bench_compare.report.history import case_entries, conclude, report_of
    from bench_compare.report.site import index, style_sheet

    if arguments["--output"] is None:
        raise UsageError("pages: where to? Name a folder for the site: -o site/")
    refuse_flag(Place("-o", arguments["--output"]))
    site = Path(arguments["--output"])
    words: dict[str, Any] = {"--metric": None, "--filter": None, "--since": None, "--fail-on": None}
    words |= {"--next": None, "--quiet": False, "--allow-no-answer": True}
    options = parse({**words, **arguments})
    _check_folder(site, options.archive)
    history, remarks = read_history(options)
    view = View()
    conclusion = conclude(history, options.fail_on, allow_no_answer=True)
    make_folder(site / BUILDS)
    write(site / STYLE, style_sheet())
    write(site / HISTORY, render("html", report_of(history, conclusion), view))
    from bench_compare.policy import Policy

    policy = Policy(threshold_ratio=options.threshold_ratio)
    known = _calibration(options.archive)
    entries, written = _write_builds(site, history, policy, known, force=arguments["--force"])
    links = [("history", HISTORY), ("newest build", NEWEST)]
    sentences = list(report_of(history, conclusion).body().statements[1:])
    cases = case_entries(history, HISTORY)
    write(site / INDEX, index(history.title, conclusion.line, sentences, cases, entries, links))
    count = len(history.builds)
    text = f"{site / INDEX}: {count} build{'' if count == 1 else 's'}, {written} pages written"
    return CommandResult(f"{text}\n{conclusion.line}", remarks=tuple(remarks[:10]))


def _calibration(archive: Sequence[str]) -> Calibration | None:
    """Return the variation between documents of one build, as the archive shows it; None if it
    cannot."""
    from bench_compare.history.calibration import learned

    if len(archive) != 1 or not Path(archive[0]).is_dir():
        return None
    try:
        return learned(Path(archive[0]))[0]
    except InputError:  # too few documents
        return None


def _check_folder(site: Path, archive: Sequence[str]) -> None:
    """Raise `UsageError` if pages would be written among documents, `OutputError` for a file."""
    if site.exists() and not site.is_dir():
        raise OutputError(f"-o {site}: is a file, and a folder is needed")
    for path in map(Path, archive):
        if path.is_dir() and site.resolve() == path.resolve():
            raise UsageError(f"-o {site}: is the archive; choose another folder for the site")


class Job(NamedTuple):
    """The page of a build that is to be written."""

    site: Path
    info: BuildInfo
    page: str
    before: tuple[BuildInfo, str] | None
    """The build before and its page."""
    policy: Policy
    calibration: Calibration | None
    is_newest: bool


def _write_builds(
    site: Path,
    history: History,
    policy: Policy,
    calibration: Calibration | None,
    *,
    force: bool,
) -> tuple[list[BuildEntry], int]:
    """Write the pages of builds that are missing, and the newest with charts; return the rows of
    the index and the number of pages written. The answer of a page that is kept is read from it."""
    from bench_compare.report.history import TONES, size_text, state_of
    from bench_compare.report.site import kept_entry

    pages = _page_names(history.builds)
    found: dict[str, BuildEntry] = {}
    jobs = []
    before = None
    for info, page in zip(history.builds, pages, strict=True):
        is_newest = info is history.builds[-1]
        job = Job(site, info, page, before, policy, calibration, is_newest)
        kept = None if force or is_newest else kept_entry(site / page, _key(job))
        if kept is None:
            jobs.append(job)
        else:
            found[page] = kept
        before = info, page
    found.update(zip((job.page for job in jobs), _in_processes(jobs), strict=True))
    events: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for event in history.events:
        text = ", ".join(filter(None, (event.sentence, size_text(event), state_of(event, history))))
        events[event.build].append((TONES[event.direction], text))
    entries = [
        replace(found[page], events=tuple(events[number])) for number, page in enumerate(pages)
    ]
    return entries, len(jobs) + 3


def _in_processes(jobs: Sequence[Job]) -> list[BuildEntry]:
    """Return the facts of each written page, by as many processes as there are cores."""
    from concurrent.futures import ProcessPoolExecutor

    cores = len(os.sched_getaffinity(0))
    if len(jobs) < LEAST_JOBS or cores < 2:
        return [_write_build(job) for job in jobs]
    with ProcessPoolExecutor(cores) as pool:
        return list(pool.map(_write_build, jobs, chunksize=4))


def _page_names(builds: Sequence[BuildInfo]) -> list[str]:
    """Return unique addresses from the names of builds."""
    found: dict[str, None] = {}
    for info in builds:
        stem = re.sub(r"[^A-Za-z0-9._]+", "-", info.name).strip("-.")[:MOST_CHARACTERS] or "build"
        name, number = f"{BUILDS}/{stem}.html", 1
        while name in found:
            number += 1
            name = f"{BUILDS}/{stem}-{number}.html"
        found[name] = None
    return list(found)


def _key(job: Job) -> str:
    """Return a hash of everything in a page: documents of the build and of the one before, by name
    and size, and the threshold."""
    infos = [job.info, *([] if job.before is None else [job.before[0]])]
    held = [
        (info.name, [(Path(path).name, os.path.getsize(path)) for path in info.documents])
        for info in infos
    ]
    text = repr((held, job.policy.threshold_ratio))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(info: BuildInfo) -> Built:
    from bench_compare.input.load import read_source

    return Built(info, tuple(read_source(Path(path)) for path in info.documents))


def _write_build(job: Job) -> BuildEntry:
    """Write the page of a build; return its facts."""
    from bench_compare.model import View
    from bench_compare.report import render
    from bench_compare.report.site import BuildEntry, light
    from bench_compare.report.words import instant

    view = View(all=True)
    built = _read(job.info)
    report = _alone(built) if job.before is None else _compared(_read(job.before[0]), built, job)
    line = report.conclusion.line
    links = [("index", f"../{INDEX}"), ("history", f"../{HISTORY}")]
    if job.before is not None:
        links.append((f"build before: {job.before[0].name}", f"../{job.before[1]}"))
    title = f"{job.info.name}: {line}"
    run = built.sources[-1].document.run
    commit = run.tags.get("commit", "")[:COMMIT_CHARACTERS]
    entry = BuildEntry(
        job.info.name,
        "" if run.label == job.info.name else run.label or "",
        "" if commit == job.info.name else commit,
        instant(job.info.started),
        {state.word: (state.tone, count) for state, count in report.body().counts},
        line,
        job.page,
    )
    text = light(report, view, title, links, (_key(job), entry))
    write(job.site / job.page, text)
    if job.is_newest:
        write(job.site / NEWEST, render("html", report, view))
    return entry


def _side(built: Built) -> Side:
    from bench_compare.model import Side

    engines = (engine.key for one in built.sources for engine in one.document.engines)
    return Side(built.info.name, built.sources, tuple(dict.fromkeys(engines)))


def _compared(before: Built, built: Built, job: Job) -> Report:
    from bench_compare.comparison.compare import compare
    from bench_compare.model import View
    from bench_compare.report.compare import report_of

    comparison: Comparison = compare(_side(before), [_side(built)], job.policy, job.calibration)
    return report_of(comparison, View(all=True))


def _alone(built: Built) -> Report:
    """Return a report of the first build of an archive, which nothing is compared with."""
    from bench_compare.model import Invocation, View
    from bench_compare.report.single import ShownRun, report_of

    return report_of(ShownRun(built.sources[0], Invocation()), View(all=True))
