"""Decisions on cases between rounds, by bench-compare: ``--until decided``.

The two commands share nothing but documents, and there is one comparison: bench-compare reads the
results so far as in the finished document, so the verdicts at the end are those that it will give
for ever.
"""

from __future__ import annotations

import glob
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema import files

from bench_run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SHOWN = 300
"""Characters of bench-compare's complaint that are repeated."""
DECIDED = ("faster", "slower", "same", "clock")


@dataclass(frozen=True)
class Decisions:
    """The result of one look."""

    counts: Mapping[str, int]
    """Verdicts that are decided."""
    decided: frozenset[str]
    """Ids of cases in decided pairs; they may be in open ones, too."""
    open: frozenset[str]
    """Ids of cases that more rounds may decide."""
    unclear: int
    """Pairs that are open."""
    without: Mapping[str, int]
    """Pairs that rounds cannot decide, by the reason."""

    def sentence(self, what: str) -> str:
        """Return a sentence such as ``5 of 7 pairs decided (3 faster, 2 same), 1 open, 1 needs more
        documents``; `what`: the word for pairs."""
        decided = sum(self.counts.values())
        total = decided + self.unclear + sum(self.without.values())
        listed = ", ".join(f"{number} {verdict}" for verdict, number in self.counts.items())
        parts = [f"{decided} of {total} {what} decided" + (f" ({listed})" if listed else "")]
        parts += [f"{self.unclear} open"] if self.unclear else []
        parts += [f"{number} {reason}" for reason, number in self.without.items()]
        return ", ".join(parts)


def check_until_decided(against: str | None, engines: int) -> None:
    """Raise `UsageError` or `DocumentError` if nothing could be decided. `against`: documents of an
    earlier run; None: the engines of this run against each other."""
    if against is None:
        if engines < 2:
            raise UsageError(
                "--until decided compares engines: give --a and --b, several --engine, "
                "or --against FILE"
            )
        return
    path = Path(against)
    if path.is_file():
        files.read(path)
    elif not path.is_dir() and not glob.glob(against, recursive=True):
        raise UsageError(f"--against: {against}: no such file")


class Referee:
    """Asks bench-compare. `save` writes the results so far to a file and returns its path."""

    def __init__(
        self, against: str | None, threshold_ratio: float, save: Callable[[Path], Path]
    ) -> None:
        self._against, self._threshold_ratio, self._save = against, threshold_ratio, save

    @property
    def what(self) -> str:
        """Return a phrase for the items to decide: ``pairs``, or ``cases against`` a name."""
        return "pairs" if self._against is None else f"cases against {self._against}"

    def look(self) -> Decisions:
        """Look at the results. Raises `UsageError` if nothing can be compared."""
        with tempfile.TemporaryDirectory(prefix="bench-run-") as folder:
            path = str(self._save(Path(folder)))
            sides = (
                [path, "--group-by", "engine"]
                if self._against is None
                else ["--a", self._against, "--b", path]
            )
            record = comparison_record(sides, self._threshold_ratio, "--until decided")
        decisions = read_decisions(record, self._against is None)
        if not decisions.decided and not decisions.open and record["problems"]:
            raise UsageError(f"--until decided: {record['problems'][0]}")
        return decisions


def comparison_record(sides: Sequence[str], threshold_ratio: float, asked: str) -> dict[str, Any]:
    """Return the JSON of bench-compare on `sides`, words of its command line. Raises `UsageError`,
    which begins with `asked`, if nothing can be compared."""
    words = [*sides, "--threshold", repr(threshold_ratio), "--json", "-"]
    done = subprocess.run(  # noqa: S603 - our own command, no shell
        [sys.executable, "-m", "bench_compare", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    try:
        record: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        text = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        last = text.splitlines()[-1][:SHOWN].removeprefix("bench-compare: ")
        raise UsageError(f"{asked}: {last}") from None
    return record


def read_decisions(record: Mapping[str, Any], paired: bool) -> Decisions:
    """Count the verdicts of a record of ``bench-compare --json``, with the ids of decided and of
    open cases. `paired`: both sides are in this run, so both ids of a pair count."""
    counts: Counter[str] = Counter()
    without: Counter[str] = Counter()
    decided: set[str] = set()
    still: set[str] = set()
    unclear = 0
    sides = ("base", "other") if paired else ("other",)
    for case in record["cases"]:
        ids = [case[name]["case"] for name in sides if case[name] is not None]
        metric = case["metrics"].get(case["gate"])
        if metric is None:
            without["not comparable"] += 1
        elif metric["verdict"] in DECIDED:
            counts[metric["verdict"]] += 1
            decided.update(ids)
        elif metric["needed_unit"] == "document":
            without["open that only more documents decide"] += 1
        else:
            unclear += 1
            still.update(ids)
    return Decisions(dict(counts), frozenset(decided), frozenset(still), unclear, dict(without))
