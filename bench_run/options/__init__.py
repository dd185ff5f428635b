"""The settings of a run: `Options`, and how its values are read and checked."""

from bench_schema.settings import as_dataclass

from bench_run.options.groups import (
    Cut,
    Engines,
    Output,
    Sampling,
    Sources,
    Validation,
    cut,
    grouped,
    names_graphs,
)
from bench_run.options.read import checked, read_options, read_tune_options
from bench_run.settings import STDOUT, Options, Spellings, TuneOptions

__all__ = [
    "STDOUT",
    "Cut",
    "Engines",
    "Options",
    "Output",
    "Sampling",
    "Sources",
    "TuneOptions",
    "Validation",
    "checked",
    "cut",
    "grouped",
    "names_graphs",
    "read_options",
    "read_tune_options",
]

for rows in (Options, Spellings, TuneOptions):
    as_dataclass(rows)
    rows.__module__ = __name__  # so that unpickling one imports this package first
