"""``--strict``: outputs are compared by a process that never loaded the engine's code.

The engine's worker leaves them in a file, raw; the judging process reads that file, makes inputs of
its own, and reports to the run. Nothing in the file is executed: it holds arrays, and figures as
one more.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench_run.tensors.data import inputs_of
from bench_run.tensors.files import from_bytes, read_tensors, write_tensors
from bench_run.tensors.layout import plain_array
from bench_run.validate.outputs import check_fit
from bench_run.worker.messages import Judged
from bench_run.worker.outputs import Kept, LeftOutputs, OutputValidator

if TYPE_CHECKING:
    from bench_run.graph.model import Graph
    from bench_run.tensors.layout import Array
    from bench_run.worker.messages import Judge

FIGURES, CHANGED_INPUTS, FIRST, KEPT = "figures", "changed inputs", "first", "kept"
"""Before the uid in the name of an output: ``first/7``; of number 2 of what was kept, on set 3
after sample 12, ``kept/2/12/3/7``."""


def write_outputs(path: str, left: LeftOutputs) -> None:
    """Write outputs. Raises `EngineError` if an output does not fit its tensor, and
    `OutputError`."""
    figures = (left.looked, left.untouched, left.repeats)
    arrays: dict[str, Array] = {FIGURES: np.array(figures, np.int64)}
    if left.changed_inputs is not None:
        arrays[CHANGED_INPUTS] = np.array(left.changed_inputs, np.int64)
    groups = {FIRST: left.first}
    for number, each in enumerate(left.kept):
        groups[f"{KEPT}/{number}/{each.iteration}/{each.index}"] = each.outputs
    for name, outputs in groups.items():
        if outputs:
            check_fit(left.graph, outputs)
        for uid, storage in outputs.items():
            arrays[f"{name}/{uid}"] = np.ascontiguousarray(plain_array(storage))
    write_tensors(Path(path), arrays, {})


def read_outputs(path: str, case_id: str, graph: Graph) -> LeftOutputs:
    """Read the outputs. Raises `GraphError` if the file is unreadable or not a complete safetensors
    file."""
    groups: dict[str, dict[int, Array]] = {}
    figures = np.zeros(3, np.int64)
    changed: tuple[int, ...] | None = None
    for name, (_, _, content) in read_tensors(Path(path)).items():
        group, _, uid = name.rpartition("/")
        if name == FIGURES:
            figures = np.frombuffer(content, np.int64)
        elif name == CHANGED_INPUTS:
            changed = tuple(map(int, np.frombuffer(content, np.int64)))
        else:
            kind = graph.by_uid[int(uid)].data_type
            groups.setdefault(group, {})[int(uid)] = from_bytes(content, kind)
    first = groups.pop(FIRST, {})
    kept = sorted((tuple(map(int, name.split("/")[1:])), each) for name, each in groups.items())
    looked, untouched, repeats = map(int, figures)
    return LeftOutputs(
        case_id=case_id,
        graph=graph,
        first=first,
        kept=tuple(Kept(iteration, index, each) for (_, iteration, index), each in kept),
        changed_inputs=changed,
        looked=looked,
        untouched=untouched,
        repeats=repeats,
    )


def judge(request: Judge) -> Judged:
    """Compare the file's outputs with the expected ones; remove the file."""
    path = Path(request.outputs_file)
    try:
        left = read_outputs(str(path), request.case_id, request.graph)
    finally:
        path.unlink(missing_ok=True)
    own = replace(request.data, cache=None)  # the engine's process can write that
    validator = OutputValidator(left, request.settings, own, lambda: inputs_of(request.graph, own))
    return Judged(validator.validation(), validator.checks())
