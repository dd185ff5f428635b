"""The question with all that it needs: documents of one way, tables, the network, names of rows."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

from bench_schema.identity import engine_name

from bench_compare.compose.agreement import refuse_unlike
from bench_compare.compose.bench import Bench
from bench_compare.compose.forms import conversion_of
from bench_compare.compose.network import read_network
from bench_compare.compose.table import Table, series_of
from bench_compare.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bench_compare.compose.bench import Picks
    from bench_compare.compose.model import Goal
    from bench_compare.compose.network import Network
    from bench_compare.compose.table import Row
    from bench_compare.model import Source

STATES = ("pass", "weights-cold", "hot", "rotate", "cold")
"""Cache states, the one that is most like a pass of the network first."""


@dataclass(frozen=True)
class Question:
    sources: tuple[Source, ...]
    """Documents with the layers."""
    path: Path
    """The pipeline file."""
    against: tuple[Source, ...] = ()
    """Documents with measured chains."""
    engines: tuple[str, ...] = ()
    """Globs of the engines that count; empty: all."""
    baseline: str | None = None
    choose: Goal | None = None
    within: float | None = None
    """Time that a choice by energy may take over the least, as a ratio."""
    limits: Mapping[str, float] = field(default_factory=dict)
    fixes: tuple[tuple[str, str], ...] = ()
    """Globs of layers and configurations."""
    cache: str | None = None
    series: str | None = None


class Setup:
    """Everything that a question needs, read and checked."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.sources = question.sources
        self.engines = _engines((*self.sources, *question.against), question.engines)
        refuse_unlike((*self.sources, *question.against), self.engines)
        self.series = question.series or series_of(self.sources, self.engines)
        self.tables = dict(self._tables())
        rows = [row for table in self.tables.values() for row in table.rows]
        if not any(row.kind == "alone" for row in rows):
            raise InputError(f"{self.sources[0].path}: no graph was measured alone")
        if not any(table.logs.size for table in self.tables.values()):
            what = f"no case has samples of {self.series} that took longer than 1 ns"
            raise InputError(f"{self.sources[0].path}: {what}")
        self.network: Network = read_network(question.path, rows)
        self.benches = {state: self.bench_of(state, table) for state, table in self.tables.items()}
        self.state = self._best_state()

    def _tables(self) -> Iterator[tuple[str, Table]]:
        found = {state: self._of_state(self.sources, state) for state in STATES}
        if self.question.cache is not None and not found[self.question.cache]:
            raise InputError(f"--cache {self.question.cache}: no document was measured so")
        for state, sources in found.items():
            if sources:
                made = tuple(sources)
                if state != "hot":
                    known = {c.graph.name for s in sources for c in s.document.cases}
                    made += tuple(_conversions(found["hot"], known))
                yield state, Table(made, self.engines, self.series)

    @staticmethod
    def _of_state(sources: Sequence[Source], state: str) -> list[Source]:
        return [one for one in sources if one.document.run.settings.cache == state]

    def bench_of(self, state: str, table: Table) -> Bench:
        hot = () if state == "hot" else (s.path for s in self._of_state(self.sources, "hot"))
        return Bench(self.network, table, self._idle_w, frozenset(hot))

    @cached_property
    def _idle_w(self) -> float:
        found = [
            one.telemetry_before.power_w
            for source in self.sources
            for case in source.document.cases
            for one in case.rounds
            if one.telemetry_before is not None and one.telemetry_before.power_w is not None
        ]
        return statistics.median(found) if found else 0.0

    def _best_state(self) -> str:
        """Return the asked state, else the one with most layers; where something is chosen, with
        most rows."""
        if self.question.cache is not None:
            return self.question.cache

        def rank(state: str) -> tuple[int, int, int]:
            counts = [len(self.benches[state].usable(n)) for n in range(len(self.network.layers))]
            rows = sum(counts) if self.question.choose is not None else 0
            return sum(map(bool, counts)), rows, -STATES.index(state)

        return max(self.benches, key=rank)

    @property
    def bench(self) -> Bench:
        return self.benches[self.state]

    @property
    def names(self) -> list[str]:
        return [layer.id for layer in self.network.layers]

    @cached_property
    def engine_names(self) -> tuple[str, ...]:
        every = [self.bench.rows[row] for rows in self.bench.options for row in rows]
        return tuple(dict.fromkeys(row.engine for row in every or self.bench.rows))

    def as_named(self, name: str, bench: Bench | None = None) -> list[int | None]:
        """Return the row of each layer by an engine, whose own choice counts, or a
        configuration."""
        bench = bench or self.bench
        found: list[int | None] = []
        for layer in range(len(self.network.layers)):
            fitting = [row for row in bench.usable(layer) if _fits(bench.rows[row], name)]
            plain = [row for row in fitting if not bench.rows[row].variant]
            found.append(bench.fastest(plain or fitting))
        return found

    def as_file(self, name: str, bench: Bench | None = None) -> Picks | None:
        """Return the rows that a chain of the pipeline runs on an engine: the variants that the
        file names, otherwise the engine's own choice; None if a layer does not have a row."""
        bench = bench or self.bench
        found = self.as_named(name, bench)
        for place, rows in self.named(bench, name).items():
            found[place] = bench.fastest(rows)
        return complete(found)

    def named(self, bench: Bench, engine: str | None = None) -> dict[int, list[int]]:
        """Return the rows whose variants the pipeline file names, by layer."""
        found: dict[int, list[int]] = {}
        for place, layer in enumerate(self.network.layers):
            if layer.variant:
                rows = [(row, bench.rows[row]) for row in bench.usable(place)]
                wanted = dict(layer.variant)
                same = [
                    n for n, r in rows if dict(r.variant) == wanted and engine in (None, r.engine)
                ]
                found |= {place: same} if same else {}
        return found

    def baseline(self) -> tuple[str, Picks | None]:
        """Return the name of the baseline and its rows: the named one, or the first engine that has
        all layers; None if there is none."""
        asked = self.question.baseline
        if asked is not None:
            found = self.as_named(asked)
            if asked not in self.engine_names and not any(row is not None for row in found):
                known = ", ".join(self.engine_names)
                raise UsageError(f"--baseline {asked}: no row has this name; engines are {known}")
            return asked, complete(found)
        for name in self.engine_names:
            picks = complete(self.as_named(name))
            if picks is not None:
                return name, picks
        return self.engine_names[0] if self.engine_names else "", None

    def fixed(self) -> dict[int, list[int]]:
        """Return the rows that flags or the pipeline name, by layer. Raises `UsageError`."""
        bench = self.bench
        found = self.named(bench)
        for pattern, text in self.question.fixes:
            places = [n for n, name in enumerate(self.names) if fnmatchcase(name, pattern)]
            if not places:
                known = ", ".join(self.names)
                raise UsageError(f"--fix {pattern}={text}: no layer {pattern!r}; there are {known}")
            fitting = {
                place: [row for row in bench.usable(place) if _fits(bench.rows[row], text)]
                for place in places
            }
            if not any(fitting.values()):
                rows = [bench.rows[row] for place in places for row in bench.options[place]]
                known = ", ".join(dict.fromkeys(row.configuration for row in rows))
                told = f"no such row of this layer; there are {known}"
                raise UsageError(f"--fix {pattern}={text}: {told}")
            found |= {place: rows for place, rows in fitting.items() if rows}
        return found


def complete(found: Sequence[int | None]) -> Picks | None:
    known = tuple(row for row in found if row is not None)
    return known if len(known) == len(found) else None


def _fits(row: Row, text: str) -> bool:
    words = [f"{key}={value}" for key, value in row.variant.items()]
    forms = {" ".join((row.engine, *words)), ":".join((row.engine, *words))}
    forms |= {f"{row.engine}:{','.join(words)}"} if words else {row.engine}
    return text in forms or any(fnmatchcase(form, text) for form in forms)


def _engines(sources: Sequence[Source], globs: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the keys of the engines that count, by document. Raises `InputError` if a glob fits
    none."""

    def fits(key: str) -> bool:
        return not globs or any(
            fnmatchcase(name, glob) for glob in globs for name in (key, engine_name(key).spec)
        )

    found = {
        one.path: frozenset(e.key for e in one.document.engines if fits(e.key)) for one in sources
    }
    if not any(found.values()):
        raise InputError(f"{sources[0].path}: no engine fits {', '.join(globs)}")
    return found


def _conversions(hot: Sequence[Source], known: set[str]) -> Iterator[Source]:
    """Yield the hot documents with those conversions only that the state itself does not have."""
    for source in hot:
        cases = source.document.cases
        wanted = tuple(
            case
            for case in cases
            if conversion_of(case.graph.name) is not None and case.graph.name not in known
        )
        if wanted:
            yield replace(source, document=replace(source.document, cases=wanted))
