"""A comparison from Python: `bench_compare.compare`, made for notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Document

    from bench_compare.model import Comparison, Conclusion, Source

Given: TypeAlias = "str | Path | Document | Sequence[str | Path | Document]"
"""Documents of one side: a file, folder or glob, a value of `bench_run.run`, or several of them."""


@dataclass(frozen=True, eq=False)
class Result:
    """A comparison that shows itself: as a table in a notebook, as text in a terminal."""

    comparison: Comparison
    conclusion: Conclusion

    @property
    def word(self) -> str:
        """``PASS``, ``FAIL`` or ``UNDECIDED``."""
        return self.conclusion.word

    def to_frame(self) -> Any:
        """Return a row for each case as a `pandas.DataFrame`. Times are nanoseconds, ratios other
        over base. Raises `ImportError` without pandas."""
        import pandas

        return pandas.DataFrame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return the cases as dictionaries, which need no pandas."""
        return [_row(case) for case in self.comparison.cases]

    def html(self, path: str | Path) -> None:
        """Write the page with charts. Raises `OutputError` if it cannot be written."""
        from bench_compare.commands.files import write

        write(Path(path), self._rendered("html"))

    def _repr_html_(self) -> str:
        from bench_compare.report.site import as_html

        return as_html(self._rendered("markdown"))

    def __str__(self) -> str:
        return self._rendered("text")

    def _rendered(self, name: str) -> str:
        from bench_compare.model import View
        from bench_compare.report import render
        from bench_compare.report.compare import report_of

        view = View(all=True)
        return render(name, report_of(self.comparison, view), view)


def compare(
    base: Given,
    other: Given,
    *,
    threshold: float | str = "1%",
    labels: tuple[str, str] | None = None,
) -> Result:
    """Compare documents with those of a base.

    `threshold` is the smallest change of interest, as a share (0.02) or in words (``2%``). Raises
    `bench_compare.errors.BenchCompareError` or `bench_schema.errors.DocumentError`.
    """
    from bench_compare.comparison.compare import compare as compared
    from bench_compare.comparison.reasons import conclude
    from bench_compare.input.sides import pair
    from bench_compare.policy import Policy, parse_ratio

    share = parse_ratio(threshold, "threshold") if isinstance(threshold, str) else threshold
    first, second = pair(_sources(base, "base"), _sources(other, "other"), labels or ())
    found = compared(first, [second], Policy(threshold_ratio=share))
    return Result(found, conclude(found))


def _sources(given: Given, name: str) -> list[Source]:
    """Return the documents of one side, read if they are files."""
    from bench_schema.document import Document

    from bench_compare.input.load import load
    from bench_compare.model import Source

    several = [given] if isinstance(given, (str, Path, Document)) else list(given)
    found: list[Source] = []
    for number, one in enumerate(several):
        if isinstance(one, Document):
            found.append(Source(f"{name}[{number}]", one, "bench"))
        else:
            found += load([str(one)])[0]
    return found


def _row(case: Any) -> dict[str, Any]:
    """Return a case as plain values, with the metric that decides."""
    metric = case.gate_metric
    return {
        "case": case.name,
        "engine": case.engine,
        "family": case.family,
        "data_type": case.data_type,
        "variant": dict(case.variant),
        "verdict": str(case.verdict),
        "metric": case.gate,
        "base": None if metric is None else metric.base,
        "other": None if metric is None else metric.other,
        "ratio": None if metric is None else metric.ratio,
        "ci_low": None if metric is None else metric.ci_low,
        "ci_high": None if metric is None else metric.ci_high,
        "reason": case.reason,
    }
