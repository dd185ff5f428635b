"""``--adversarial``: a plan on inputs that bring mistakes to light, none of it timed.

Each kind of inputs (`tensors/adversarial.py`) runs twice without anything in between, so that a
result that adds to what was there is found as well. Where the engine `numpy` is wrong too, the
kind says nothing of the engine and is left out.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from bench_run.engines import engine_module
from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.errors import BenchRunError, EngineError, UnsupportedGraphError, message_of
from bench_run.graph.dtypes import DTYPES
from bench_run.measure.prepared import Prepared, prepare_plan
from bench_run.tensors.adversarial import SEED, adversarial_sets
from bench_run.tensors.computed import compute_expected
from bench_run.tensors.data import inputs_of
from bench_run.validate.expected import custom_overrides
from bench_run.validate.outputs import OutputChecker, validation
from bench_run.validate.tolerance import Circumstances, tolerances
from bench_run.worker.messages import NOT_CHECKED, Attacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench_run.engines.base import Engine, Plan
    from bench_run.graph.model import Graph
    from bench_run.tensors.layout import Array, Storages
    from bench_run.worker.messages import Attack

BUDGET_S = 60.0
"""No further kind of inputs begins after as long."""
OFFSET_BYTES = 16
"""Distance of the buffers from where an allocator puts them."""


def attack(engine: Engine, request: Attack) -> Attacked:
    """Attack the engine. Raises its errors before anything is compared."""
    graph, end = request.graph, time.perf_counter() + BUDGET_S
    usual = inputs_of(graph, request.data)
    found = Attacked()
    with prepare_plan(engine, graph, usual, request.variant) as prepared:
        for name, inputs in _kinds(prepared.plan, request, usual):
            if time.perf_counter() > end:
                return found.with_note(f"stopped after {BUDGET_S:.0f} s, before {name}")
            found = _try(prepared, request, name, inputs, found)
    return found


def _kinds(plan: Plan, request: Attack, usual: Storages) -> Iterator[tuple[str, Storages]]:
    yield from adversarial_sets(request.graph, request.data, usual)
    move = plan.abilities.move
    if move is not None:
        move(OFFSET_BYTES)
        yield f"buffers that begin {OFFSET_BYTES} bytes further on", usual


def _try(
    prepared: Prepared, request: Attack, name: str, inputs: Storages, found: Attacked
) -> Attacked:
    """Run one kind of inputs, and add the result."""
    try:
        expected = compute_expected(request.graph, inputs)
        why = None if name.startswith(SEED) else _says_nothing(request.graph, expected)
        if why is not None:
            return found.with_note(f"{name}: left out, {why}")
        checker = _checker(request, inputs, expected)
    except Exception as error:
        return found.with_note(f"{name}: {NOT_CHECKED}no reference: {_words(error)}")
    try:
        outputs = prepared.outputs_on(inputs)
        prepared.run()
        again = prepared.plan.download()
    except (EngineError, UnsupportedGraphError) as error:
        return found.with_finding(f"{name}: {error}")
    try:
        first, second = checker.check(outputs), checker.check(again)
    except EngineError as error:
        return found.with_finding(f"{name}: {error}")
    except Exception as error:  # the comparison's own: not a verdict on the engine
        return found.with_note(f"{name}: {NOT_CHECKED}{_words(error)}")
    if first.checksum != second.checksum:
        found = found.as_varying()
    if first.mismatched and _is_wrong_on_numpy(request, inputs, checker):
        return found.with_note(f"{name}: left out, float32 arithmetic is wrong as well")
    if first.mismatched:
        return found.with_finding(f"{name}: {validation('', request.graph, [first]).reason}")
    if second.mismatched:
        reason = validation("", request.graph, [second]).reason
        return found.with_finding(f"{name}, a second run: {reason}")
    return found.with_kind(name)


def _words(error: Exception) -> str:
    """Return the error in a line; one that is not meant for the user with its type."""
    meant = isinstance(error, BenchRunError)
    return str(error) if meant else f"{type(error).__name__}: {message_of(error)}"


NEAR_THE_END = 1 / 16
"""Part of a type's largest number beyond which honest steps overflow."""


NOTHING = 1e-6
"""Largest result of functions that are saturated."""


def _says_nothing(graph: Graph, expected: Mapping[int, Array]) -> str | None:
    """Return why right engines may differ in these outputs, if they may."""
    for tensor in graph.outputs:
        values, row = expected[tensor.uid], DTYPES[tensor.data_type]
        if values.dtype.kind != "f":
            continue
        if np.isnan(values).any():
            return "the reference gives NaN"
        sizes = np.abs(values[np.isfinite(values) & (values != 0)])
        if np.any((sizes > NEAR_THE_END * row.largest) & (sizes <= row.largest)):
            return "results are at the end of their type"
        if sizes.size and np.median(sizes) < row.smallest and sizes.max() < NOTHING:
            return "results are too small for their type"
    return None


def _checker(request: Attack, inputs: Storages, expected: Mapping[int, Array]) -> OutputChecker:
    graph = request.graph
    circumstances = Circumstances(inputs, request.math, False, expected)
    limits = tolerances(graph, circumstances=circumstances, overrides=dict(custom_overrides(graph)))
    return OutputChecker(graph, expected, limits)


def _is_wrong_on_numpy(request: Attack, inputs: Storages, checker: OutputChecker) -> bool:
    """Return True if plain float32 arithmetic is beyond the tolerance too, or cannot tell."""
    try:
        engine = engine_module("numpy").open(EngineSpec("numpy", "numpy"), EngineOptions())
        try:
            with prepare_plan(engine, request.graph, inputs) as prepared:
                return checker.check(prepared.plan.download()).mismatched > 0
        finally:
            engine.close()
    except BenchRunError:
        return False
