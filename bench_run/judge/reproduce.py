"""The first inputs on which a kernel was wrong, as files that a run takes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.tensors.adversarial import adversarial_sets
from bench_run.tensors.computed import compute_expected
from bench_run.tensors.data import inputs_of
from bench_run.worker.evaluate import write_golden_graph

if TYPE_CHECKING:
    from bench_run.judge.trial import Failing


def reproduce(failing: Failing, folder: str, kernel: str) -> tuple[str, str]:
    """Write graph, inputs and what is expected into a folder; return the command that runs them,
    and which inputs they are. Raises `OutputError`."""
    graph = failing.case.graph.loaded.graph
    inputs, what = inputs_of(graph, failing.data), "the usual inputs"
    for name, changed in adversarial_sets(graph, failing.data, inputs):
        if name == failing.kind:
            inputs, what = changed, name
    stem = failing.case.graph.id.name
    provenance = {"reference": "float64 formulas in NumPy", "seed": "", "init": what}
    expected = compute_expected(graph, inputs)
    write_golden_graph(graph, inputs, expected, folder, stem, provenance)
    path = str(Path(folder) / f"{stem}.json")
    return shlex.join(["bench-run", path, "--engine", kernel]), what
