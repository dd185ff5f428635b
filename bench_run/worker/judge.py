"""``--strict``: outputs are compared by a process that never loaded the engine's code.

The engine's worker leaves them in a file, raw; whoever judges reads that file, makes inputs of its
own, and tells the run. Nothing in the file is executed: it holds arrays, and figures as one more.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench_run.measure.contents import Move
from bench_run.tensors.data import inputs_of
from bench_run.tensors.files import from_bytes, read_tensors, write_tensors
from bench_run.tensors.layout import plain_array
from bench_run.validate.outputs import check_fit
from bench_run.worker.messages import Judged
from bench_run.worker.outputs import ChangedRun, LeftOutputs, OutputValidator

if TYPE_CHECKING:
    from bench_run.graph.model import Graph
    from bench_run.tensors.layout import Array
    from bench_run.worker.messages import Judge

FIGURES, CHANGED_INPUTS, MOVES = "figures", "changed inputs", "moves"
FIRST, TIMED, AFTER, REPLACED, ELSEWHERE = "first", "timed", "after", "replaced", "elsewhere"
IN_PART = "in part"
"""Before the uid in the name of an output: ``first/7``; of a timed iteration ``timed/12/7``."""


def write_outputs(path: str, left: LeftOutputs) -> None:
    """Raises `EngineError` where an output is no storage of its tensor, and `OutputError`."""
    figures = (left.looked, left.untouched, left.repeats, left.spent_ns)
    arrays: dict[str, Array] = {FIGURES: np.array(figures, np.int64)}
    if left.changed_inputs is not None:
        arrays[CHANGED_INPUTS] = np.array(left.changed_inputs, np.int64)
    groups = {FIRST: left.first, AFTER: left.after}
    groups |= {f"{TIMED}/{iteration}": outputs for iteration, outputs in left.timed}
    if left.replaced is not None:
        groups[REPLACED] = left.replaced
    if left.elsewhere is not None:
        groups[ELSEWHERE] = left.elsewhere
    for place, run in enumerate(left.in_part):
        groups[f"{IN_PART}/{place}"] = run.outputs
        rows = [(move.uid, move.to, move.source, move.size) for move in run.moves]
        arrays[f"{MOVES}/{place}"] = np.array(rows, np.int64)
    for name, outputs in groups.items():
        if outputs:
            check_fit(left.graph, outputs)
        for uid, storage in outputs.items():
            arrays[f"{name}/{uid}"] = np.ascontiguousarray(plain_array(storage))
    write_tensors(Path(path), arrays, {})


def read_outputs(path: str, case_id: str, graph: Graph) -> LeftOutputs:
    """Raises `GraphError` for a file that is none."""
    groups: dict[str, dict[int, Array]] = {}
    figures = np.zeros(4, np.int64)
    changed: tuple[int, ...] | None = None
    moves: dict[int, tuple[Move, ...]] = {}
    for name, (_, _, content) in read_tensors(Path(path)).items():
        group, _, uid = name.rpartition("/")
        if name == FIGURES:
            figures = np.frombuffer(content, np.int64)
        elif name == CHANGED_INPUTS:
            changed = tuple(map(int, np.frombuffer(content, np.int64)))
        elif group == MOVES:
            rows = np.frombuffer(content, np.int64).reshape(-1, 4).tolist()
            moves[int(uid)] = tuple(Move(*row) for row in rows)
        else:
            kind = graph.by_uid[int(uid)].data_type
            groups.setdefault(group, {})[int(uid)] = from_bytes(content, kind)
    iterations = sorted(int(name.split("/")[1]) for name in groups if name.startswith(TIMED))
    looked, untouched, repeats, spent_ns = map(int, figures)
    return LeftOutputs(
        case_id=case_id,
        graph=graph,
        first=groups.get(FIRST, {}),
        timed=tuple((iteration, groups[f"{TIMED}/{iteration}"]) for iteration in iterations),
        after=groups.get(AFTER, {}),
        replaced=groups.get(REPLACED),
        elsewhere=groups.get(ELSEWHERE),
        in_part=tuple(
            ChangedRun(made, groups.get(f"{IN_PART}/{place}", {}))
            for place, made in sorted(moves.items())
        ),
        changed_inputs=changed,
        looked=looked,
        untouched=untouched,
        repeats=repeats,
        spent_ns=spent_ns,
    )


def judge(request: Judge) -> Judged:
    """Compares what the file holds with what is expected; the file goes."""
    path = Path(request.outputs_file)
    try:
        left = read_outputs(str(path), request.case_id, request.graph)
    finally:
        path.unlink(missing_ok=True)
    own = replace(request.data, cache=None)  # the engine's process can write that
    validator = OutputValidator(left, request.settings, own, lambda: inputs_of(request.graph, own))
    return Judged(validator.validation(), validator.checks())
