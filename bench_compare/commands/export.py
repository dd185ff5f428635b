"""`bench-compare export`: documents in the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.units import count_text

from bench_compare.commands.files import check_reports, write
from bench_compare.commands.outcome import CommandResult
from bench_compare.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

USAGE = """bench-compare export: results in the formats of other tools.

Usage:
  bench-compare export [options] [--to=KIND]... [DOC]...
  bench-compare export --help
  bench-compare export --version

DOC is a result document, a folder of them, a glob, or a file of another tool
(bench-compare help tools).

KIND[:FILE] may be given again; without FILE the text goes to stdout. KIND is

  bmf        Bencher's metric format: the time of each case and its interval
  hud        PyTorch's benchmark database, version 3: the rounds of each case
  github-action-benchmark
             for its tool 'customSmallerIsBetter'
  openmetrics  gauges, also for a node exporter's textfile collector
  ledger     dnn-benchmarking's table of which engine applies to which graph
  parquet    a row a case, and NAME.samples.parquet with a row a sample; needs
             the extra 'parquet', and FILE

Times are medians over rounds in nanoseconds, in openmetrics seconds. Each row
carries the document's sha256 where the format has room.

Examples:
  bench-compare export run.json --to bmf:bmf.json
  bench-compare export run.json --to openmetrics:bench.prom --to parquet:run.parquet
  bench-compare export results/ --to ledger

Options:
  --to KIND[:FILE]      format, and the file to write
  -h, --help            this text
  --version             the version
"""


def answer(arguments: Mapping[str, Any], width: int, terminal: bool) -> CommandResult:  # noqa: ARG001
    """Run the command. Raises `BenchCompareError` for unknown kinds and for documents that do not
    fit the format."""
    if not arguments["DOC"]:
        raise UsageError("export: no document given: bench-compare export run.json --to bmf")
    if not arguments["--to"]:
        from bench_compare.report.exports import KINDS

        raise UsageError(f"export: --to which format? Choose from {', '.join(KINDS)}")
    targets = [_target(text) for text in arguments["--to"]]
    kinds = [kind for kind, _ in targets]
    files = {
        f"to {kind}" + f" ({number + 1})" * (kinds.count(kind) > 1): file
        for number, (kind, file) in enumerate(targets)
        if file
    }
    check_reports(files, [("DOC", pattern) for pattern in arguments["DOC"]])
    if sum(file is None for _, file in targets) > 1:
        raise UsageError(
            "--to: one format at most goes to stdout; give the others a file, KIND:FILE"
        )
    from bench_compare.input.load import load
    from bench_compare.report.exports import TEXTS, TIMES_ONLY, cases_of, parquet

    sources, remarks = load(arguments["DOC"])
    cases = cases_of(sources)
    shown = ""
    written = []
    for kind, file in targets:
        if kind == "parquet":
            assert file is not None, "parquet without a file"
            written += [str(path) for path in parquet(cases, Path(file))]
        elif file is None:
            shown = TEXTS[kind](cases)
        else:
            write(Path(file), TEXTS[kind](cases))
            written.append(file)
    untimed = sum(one.time is None for one in cases)
    if untimed and any(kind in TIMES_ONLY for kind, _ in targets):
        some = f"{untimed} of {count_text(len(cases), 'case')}"
        remarks = [*remarks, f"{some} without a time, left out"]
    text = shown or _written(written, len(cases))
    return CommandResult(text, remarks=tuple(remarks), is_document=bool(shown))


INSTEAD = {
    "prometheus": "Prometheus reads --to openmetrics",
    "bencher": "Bencher reads --to bmf",
    "pytorch": "PyTorch's HUD reads --to hud",
    **{
        name: f"bench-compare DOC --{name} FILE writes it"
        for name in ("csv", "markdown", "json", "junit", "html")
    },
}
"""Words for formats that have another name or another command."""


def _target(text: str) -> tuple[str, str | None]:
    """Return the kind and file of ``KIND[:FILE]``. Raises `UsageError`."""
    from bench_compare.report.exports import KINDS

    kind, _, file = text.partition(":")
    if kind in INSTEAD:
        raise UsageError(f"--to: no format {kind!r}; {INSTEAD[kind]}")
    if kind not in KINDS:
        raise UsageError(f"--to: no format {kind!r}; choose from {', '.join(KINDS)}")
    if kind == "parquet" and not file:
        raise UsageError("--to parquet needs a file: --to parquet:results.parquet")
    return kind, file or None


def _written(files: Sequence[str], cases: int) -> str:
    return f"{count_text(cases, 'case')} to {', '.join(files)}"
