"""Diagnosis of settings that nothing in this run reads: each is reported, none is an error.

The row of a setting names its reader (`read_by`), and a row here has the condition for a run to
have that reader. Settings that would change the measurement are refused in other places, if no
engine takes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bench_schema.settings import rows_of

from bench_run.engines import engine_module
from bench_run.options import STDOUT, Options
from bench_run.plan.engines import has_arithmetic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_run.graph.sources.load import LoadedGraph
    from bench_run.plan.engines import PlannedEngine

REFERENCES = ("auto", "numpy", "golden", "none")
"""References for which no further engine is opened."""
WRITTEN = ("output", "csv", "csv_samples", "markdown", "trace", "save_graphs", "write_golden")
"""Settings that name files which may be there already."""


@dataclass(frozen=True)
class Readers:
    """All of a run that can read settings."""

    options: Options
    engines: Sequence[PlannedEngine]
    devices: Mapping[str, str]
    """Devices by an engine's key."""
    graphs: Sequence[LoadedGraph]

    def has(self, wanted: Callable[[PlannedEngine, str], bool]) -> bool:
        """Return True if an engine and its device satisfy the condition."""
        return any(wanted(engine, self.devices[engine.key]) for engine in self.engines)

    def may_have(self, wanted: Callable[[PlannedEngine, str], bool]) -> bool:
        """Return True if an engine and its device satisfy the condition, or if the engine of the
        references, which is not open yet, may do so."""
        known = {*REFERENCES, *self.devices}
        return self.has(wanted) or any(each.reference not in known for each in self.engines)

    @property
    def names(self) -> str:
        return ", ".join(engine.key for engine in self.engines)


class Reader(NamedTuple):
    """Condition for a run to have the reader, and the sentence for its absence, with its engines'
    names."""

    is_there: Callable[[Readers], bool]
    why_not: str


def _has_caches(engine: PlannedEngine, device: str) -> bool:
    compiles = device != "cpu" or "compile" in engine.spec.options
    return compiles and engine_module(engine.spec.name).ABILITIES.environment is not None


def _is_forked(engine: PlannedEngine, device: str) -> bool:
    return device != "cpu" and engine_module(engine.spec.name).ABILITIES.preload is not None


def _compares(run: Readers) -> bool:
    return run.has(lambda engine, _: engine.reference != "none")


def _has_arithmetic(engine: PlannedEngine, _: str) -> bool:
    return has_arithmetic(engine.spec)


def _takes_scale(run: Readers) -> bool:
    return any("(--sdpa-scale " in note for loaded in run.graphs for note in loaded.notes)


def _shows_table(run: Readers) -> bool:
    o = run.options
    return not o.quiet and STDOUT not in (o.output, o.csv, o.csv_samples, o.markdown)


READERS: Mapping[str, Reader] = {
    "run": Reader(lambda _: True, ""),
    "accelerator": Reader(
        lambda run: run.has(lambda _, device: device != "cpu"),
        "no engine of this run is on an accelerator ({names}); it works with cudnn, hipdnn and "
        "torch:cuda",
    ),
    "arithmetic": Reader(
        lambda run: run.may_have(_has_arithmetic),
        "{names} computes in one kind of arithmetic; it works with cudnn, torch and kernels",
    ),
    "library caches": Reader(
        lambda run: run.may_have(_has_caches),
        "no library of these engines keeps a cache ({names}); it works with cudnn, hipdnn, "
        "torch:cuda and torch+compile",
    ),
    "template": Reader(
        lambda run: run.options.rounds > 1 and run.has(_is_forked),
        "these workers all start from nothing ({names}, {rounds} rounds); it works with cudnn and "
        "torch:cuda and several rounds",
    ),
    "hipdnn": Reader(
        lambda run: run.may_have(lambda engine, _: engine.spec.name == "hipdnn"),
        "no engine of this run is hipdnn ({names})",
    ),
    "comparison": Reader(
        _compares, "outputs are compared with nothing; it works with another --reference than none"
    ),
    "float64 reference": Reader(
        lambda run: run.has(lambda engine, _: engine.reference in ("auto", "numpy")),
        "only references in float64 are kept; it works with --reference auto or numpy",
    ),
    "recipes": Reader(lambda run: bool(run.options.op), "it works with --op, which is not given"),
    "made graphs": Reader(
        lambda run: bool(run.options.op or run.options.miopen_driver),
        "it works with --op and --miopen-driver, which are not given",
    ),
    "attention": Reader(_takes_scale, "no graph of this run has attention that lacks a scale"),
    "record": Reader(
        lambda run: run.options.tuned is not None, "it works with --tuned, which is not given"
    ),
    "document": Reader(
        lambda run: any(vars(run.options)[name] not in (None, STDOUT) for name in WRITTEN),
        "it works with -o FILE, and with reports and graphs that are written",
    ),
    "table": Reader(_shows_table, "no table is shown"),
}


def without_effect(run: Readers) -> Iterator[str]:
    """Yield a sentence for each setting that differs from its default, and that nothing in the run
    reads."""
    defaults = Options()
    for name, row in rows_of(Options).items():
        reader = READERS[row.read_by]
        if vars(run.options)[name] != vars(defaults)[name] and not reader.is_there(run):
            why = reader.why_not.format(names=run.names, rounds=run.options.rounds)
            yield f"{row.flag} has no effect: {why}"
