"""Winners in the files of other tools, as far as these can hold them.

hipDNN's override file names an engine for an operation of given dims and strides. Its key knows no
data types, no padding and nothing of what is fused to the operation, so entries of different
winners can have one key: then nothing is written.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_schema.identity import REWRITES

from bench_run.engines.base import KNOB_VARIANT
from bench_run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_schema.tuning import Candidate

    from bench_run.graph.model import Graph
    from bench_run.plan.tuned import Record

CORES = {
    "ConvolutionFwdAttributes": ("conv_fprop", ("x", "w")),
    "ConvolutionBwdAttributes": ("conv_dgrad", ("dy", "w")),
    "ConvolutionWrwAttributes": ("conv_wgrad", ("dy", "x")),
}
"""Node type to hipDNN's name of the operation and the inputs of its key: what its rules match."""


@dataclass(frozen=True)
class Exported:
    text: str
    notes: tuple[str, ...]


def refuse_unknown_kind(kind: str) -> None:
    if kind not in KINDS:
        raise UsageError(f"--export: no kind {kind!r}; choose from {', '.join(KINDS)}")


def export(kind: str, record: Record, graphs: Mapping[str, Graph]) -> Exported:
    """Export a record as `kind`. `graphs`: by fingerprint, as given. Raises `UsageError` if nothing
    can be written."""
    refuse_unknown_kind(kind)
    return KINDS[kind](record, graphs)


def hipdnn_overrides(record: Record, graphs: Mapping[str, Graph]) -> Exported:
    """Return the text of an engine override file, and notes on what it leaves out.

    Raises `UsageError` if no entry can be written.
    """
    rules: dict[str, dict[str, Any]] = {}
    origin: dict[str, str] = {}
    left, knobs = [], 0
    for entry in record.tuned.entries:
        graph = graphs.get(entry.fingerprint)
        winner = entry.chosen
        rule = "its graph was not found" if graph is None else _rule(graph, winner)
        if isinstance(rule, str):
            left.append(f"{entry.name}: {rule}")
            continue
        key = json.dumps([rule["op"], rule["tensors"]])
        if key in rules and _choice(rules[key]) != _choice(rule):
            raise UsageError(
                f"--export hipdnn: {entry.name} and {origin[key]} have one key in hipDNN's file "
                f"({rule['op']} with the same dims and strides) and different winners"
            )
        knobs += bool(rule.get("knobs"))
        rules.setdefault(key, rule)
        origin.setdefault(key, entry.name)
    if not rules:
        raise UsageError(f"--export hipdnn: no entry can be written: {left[0] if left else 'none'}")
    notes = [f"left out: {reason}" for reason in left]
    if knobs:
        notes.append(
            f"hipDNN does not apply knobs when it loads this file: {knobs} entries have "
            "some, and may run slower than recorded"
        )
    text = json.dumps({"engine_overrides": list(rules.values())}, indent=2) + "\n"
    return Exported(text, tuple(notes))


def _choice(rule: Mapping[str, Any]) -> tuple[Any, Any]:
    return rule["engine_name"], rule.get("knobs")


def _rule(graph: Graph, winner: Candidate) -> dict[str, Any] | str:
    """Return an entry of the file, or the reason why the winner cannot have one, as a sentence."""
    if winner.engine.partition(":")[0] != "hipdnn":
        return f"its winner runs on {winner.engine}, not on hipdnn"
    axes = [a for a in winner.variant if a in (*REWRITES, "math")]
    if axes:
        return f"its winner is another graph ({', '.join(axes)} was varied)"
    cores = [node for node in graph.nodes if node.type in CORES]
    if len(cores) != 1:
        return "hipDNN's rules match graphs with one convolution"
    name = winner.case_variant.get("engine") or winner.plan.get("engine")
    if not name:
        return "the record does not name its engine"
    op, ports = CORES[cores[0].type]
    tensors = [graph.by_uid[cores[0].inputs[port]] for port in ports]
    rule: dict[str, Any] = {
        "op": op,
        "engine_name": name,
        "tensors": [{"dim": list(t.dims), "stride": list(t.strides)} for t in tensors],
    }
    knobs = {
        k.removeprefix(KNOB_VARIANT): v
        for k, v in winner.case_variant.items()
        if k.startswith(KNOB_VARIANT)
    }
    if knobs:
        rule["knobs"] = []
        for knob, text in knobs.items():
            typed: dict[str, Any] = {"type": "string", "value": text}
            for kind, read in (("double", float), ("int", int)):  # the last that fits
                with suppress(ValueError):
                    typed = {"type": kind, "value": read(text)}
            rule["knobs"].append({"knob_id": knob, **typed})
    if winner.time_ns is not None:
        rule["autotune_metadata"] = {"avg_time_ms": winner.time_ns / 1e6, "rank": 0}
    return rule


def tunableop_rows(record: Record, graphs: Mapping[str, Graph]) -> Exported:
    """Return PyTorch's file names solutions of rocBLAS and hipBLASLt by number; a record says so
    only where PyTorch itself won with what it does by default."""
    rows = []
    for entry in record.tuned.entries:
        graph, winner = graphs.get(entry.fingerprint), entry.chosen
        if graph is None or winner.engine.partition(" ")[0] != "torch:cuda":
            continue
        row = _gemm_row(graph, winner)
        if row is not None:
            rows.append(row)
    if not rows:
        raise UsageError(
            "--export tunableop: no entry has a meaning there: TunableOp chooses among solutions "
            "of matrix products in PyTorch, and no winner is a matrix product on torch:cuda"
        )
    version = next(
        (e.libraries["torch"] for e in record.document.engines if "torch" in e.libraries), ""
    )
    head = f"Validator,PT_VERSION,{version.partition('+')[0]}"
    left = len(record.tuned.entries) - len(rows)
    notes = (f"{left} entries have no meaning in TunableOp's file",) if left else ()
    return Exported("\n".join((head, *rows)) + "\n", notes)


TYPES = {"float": "float", "double": "double", "half": "Half", "bfloat16": "BFloat16"}


def _gemm_row(graph: Graph, winner: Candidate) -> str | None:
    """Return the row of one plain matrix product, in the column-major terms of BLAS: C' = B' A'."""
    if (
        len(graph.nodes) != 1
        or graph.nodes[0].type != "MatmulAttributes"
        or winner.variant.get("dtype")
    ):
        return None
    node = graph.nodes[0]
    a, b = (graph.by_uid[node.inputs[port]] for port in ("a", "b"))
    if len(a.dims) != 2 or a.data_type not in TYPES or winner.time_ns is None:
        return None
    (m, k), n = a.dims, b.dims[1]
    flags = "".join("n" if t.strides[1] == 1 else "t" for t in (b, a))
    lead = [max(t.strides) for t in (b, a)]
    sizes = f"{flags}_{n}_{m}_{k}_ld_{lead[0]}_{lead[1]}_{n}"
    name = f"GemmTunableOp_{TYPES[a.data_type]}_{flags.upper()}"
    return f"{name},{sizes},Default,{winner.time_ns / 1e6:.6g}"


KINDS: dict[str, Callable[[Record, Mapping[str, Graph]], Exported]] = {
    "hipdnn": hipdnn_overrides,
    "tunableop": tunableop_rows,
}
