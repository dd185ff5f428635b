"""Which cases are decided so far: what ``--until decided`` asks bench-compare between rounds.

The two commands share nothing but documents, and there is one comparison: bench-compare reads the
results so far as anybody would read the finished document, so the verdicts at the end are those
that it will give for ever.
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
from typing import TYPE_CHECKING, Any, NamedTuple

from bench_schema import files

from bench_run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_run.options import Options
    from bench_run.plan.cases import PlannedCase
    from bench_run.plan.engines import PlannedEngine

SHOWN = 300
"""Characters of bench-compare's complaint that are repeated."""
DECIDED = ("faster", "slower", "same", "clock")
OPEN = "unclear"


class CaseKey(NamedTuple):
    """How a case of this run is called in a comparison's JSON."""

    path: str
    engine: str
    variant: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Decisions:
    """What one look found."""

    counts: Mapping[str, int]
    """Verdicts that are decided."""
    decided: frozenset[CaseKey]
    """Cases in decided pairs; they may be in open ones, too."""
    open: frozenset[CaseKey]
    """Cases that more rounds may decide."""
    unclear: int
    """Pairs that are open."""
    without: Mapping[str, int]
    """Pairs that rounds cannot decide, by the reason."""

    def sentence(self, what: str) -> str:
        """``5 of 7 pairs decided (3 faster, 2 same), 1 open, 1 needs more documents``."""
        decided = sum(self.counts.values())
        total = decided + self.unclear + sum(self.without.values())
        found = ", ".join(f"{number} {verdict}" for verdict, number in self.counts.items())
        parts = [f"{decided} of {total} {what} decided" + (f" ({found})" if found else "")]
        parts += [f"{self.unclear} open"] if self.unclear else []
        parts += [f"{number} {reason}" for reason, number in self.without.items()]
        return ", ".join(parts)


def check_until(options: Options, engines: Sequence[PlannedEngine]) -> None:
    """Raises `UsageError` or `DocumentError` where nothing could be decided."""
    if options.until == "decided" and options.against is None and len(engines) < 2:
        raise UsageError(
            "--until decided compares engines: give --a and --b, several --engine, "
            "or --against FILE"
        )
    if options.against is not None:
        path = Path(options.against)
        if path.is_file():
            files.read(path)
        elif not path.is_dir() and not glob.glob(options.against, recursive=True):
            raise UsageError(f"--against: {options.against}: no such file")


def key_of(case: PlannedCase) -> CaseKey:
    return CaseKey(case.graph.id.path, case.engine.key, tuple(sorted(case.variant.items())))


class Referee:
    """Asks bench-compare. `save` writes the results so far to a file and returns its path."""

    def __init__(self, options: Options, save: Callable[[Path], Path]) -> None:
        self._against = options.against
        self._threshold = options.threshold_ratio
        self._save = save

    @property
    def what(self) -> str:
        """What is decided."""
        return "pairs" if self._against is None else f"cases against {self._against}"

    def look(self) -> Decisions:
        """Raises `UsageError` where nothing can be compared."""
        with tempfile.TemporaryDirectory(prefix="bench-run-") as folder:
            record = self._ask(self._save(Path(folder)))
        found = read_decisions(record, self._against is None)
        if not found.decided and not found.open and record["problems"]:
            raise UsageError(f"--until decided: {record['problems'][0]}")
        return found

    def _ask(self, path: Path) -> Any:
        sides = (
            [str(path), "--group-by", "engine"]
            if self._against is None
            else ["--a", self._against, "--b", str(path)]
        )
        words = [*sides, "--threshold", repr(self._threshold), "--json", "-"]
        done = subprocess.run(  # noqa: S603 - our own command, no shell
            [sys.executable, "-m", "bench_compare", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        try:
            return json.loads(done.stdout)
        except ValueError:
            text = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
            last = text.splitlines()[-1][:SHOWN].removeprefix("bench-compare: ")
            raise UsageError(f"--until decided: {last}") from None


def read_decisions(record: Mapping[str, Any], paired: bool) -> Decisions:
    """`record` is what ``bench-compare --json`` writes; `paired`: both sides are of this run."""
    counts: Counter[str] = Counter()
    without: Counter[str] = Counter()
    decided: set[CaseKey] = set()
    still: set[CaseKey] = set()
    unclear = 0
    sides = ("base", "other") if paired else ("other",)
    for case in record["cases"]:
        metric = case["metrics"].get(case["gate"])
        if metric is None:
            without["not comparable"] += 1
        elif metric["verdict"] in DECIDED:
            counts[metric["verdict"]] += 1
            decided.update(_keys(case, sides))
        elif metric["needed_unit"] == "document":
            without["open that only more documents decide"] += 1
        else:
            unclear += 1
            still.update(_keys(case, sides))
    return Decisions(dict(counts), frozenset(decided), frozenset(still), unclear, dict(without))


def _keys(case: Mapping[str, Any], sides: Sequence[str]) -> Iterator[CaseKey]:
    variant = tuple(sorted(case["variant"].items()))
    for name in sides:
        side = case[name]
        if side is not None:
            yield CaseKey(side["path"], side["engine"], variant)
