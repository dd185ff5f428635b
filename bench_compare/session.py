"""One call of the command, from options to an outcome: read, compare, render, write."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.codec import collector_paused

from bench_compare.errors import OutputError
from bench_compare.load import load
from bench_compare.model import View, exit_code
from bench_compare.sides import group, pair

if TYPE_CHECKING:
    from bench_compare.model import Comparison, Side
    from bench_compare.options import Options


@dataclass(frozen=True)
class Outcome:
    text: str
    """For stdout."""
    remarks: tuple[str, ...]
    """For stderr, before the text."""
    problems: tuple[str, ...]
    """For stderr, after it: why there is no answer."""
    exit_code: int
    comparison: Comparison | None = None
    """What the text tells of."""


def answer(options: Options, width: int, terminal: bool) -> Outcome:
    """Raises `BenchCompareError` or `DocumentError` where there is nothing to show."""
    with collector_paused():  # all values live to the end, and none of them is a cycle
        return _answer(options, width, terminal)


def _answer(options: Options, width: int, terminal: bool) -> Outcome:
    if options.aa:
        from bench_compare.honesty import honesty

        sources, remarks = load(options.documents or (*options.a, *options.b))
        alarms = honesty(sources, options.policy)
        return Outcome(alarms.sentence, tuple(remarks), (), 0 if alarms.trusted else 1)
    base, others, remarks = sides_of(options)
    from bench_compare.comparison import compare

    comparison = compare(base, others, options.policy)
    text = _reports(comparison, options, _view(options, width, terminal))
    code = exit_code(comparison)
    return Outcome(text, tuple(remarks), comparison.problems, code, comparison)


def sides_of(options: Options) -> tuple[Side, list[Side], list[str]]:
    """Base, the others, and remarks on files that were passed over."""
    if options.a:
        a, first = load(options.a)
        b, second = load(options.b)
        base, other = pair(a, b, options.grouping.labels)
        return base, [other], [*first, *second]
    sources, remarks = load(options.documents)
    base, others = group(sources, options.grouping)
    return base, others, remarks


def _view(options: Options, width: int, terminal: bool) -> View:
    plain = not terminal or "NO_COLOR" in os.environ
    color = {"auto": not plain, "always": True, "never": False}[options.color]
    return View(
        width=width,
        color=color,
        all=options.all,
        sort=options.sort,
        filter=options.filter,
        plotlyjs=options.plotlyjs,
    )


def _reports(comparison: Comparison, options: Options, view: View) -> str:
    """Write every format asked for; what goes to stdout is returned."""
    from bench_compare.report import render

    shown = None
    for name, target in options.outputs.items():
        text = render(name, comparison, view)
        if target == "-":
            shown = text
        else:
            _write(Path(target), text)
    if shown is not None:
        return shown
    return "" if options.quiet else render("table", comparison, view)


def _write(path: Path, text: str) -> None:
    """Whole or not at all: a reader never sees half a report."""
    if path.exists() and not path.is_file():
        partial = path  # a device or a pipe
    else:
        partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        partial.write_text(text, encoding="utf-8")
        if partial is not path:
            partial.replace(path)
    except OSError as error:
        if partial is not path:
            partial.unlink(missing_ok=True)
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
