"""The expected outputs of a graph, computed once. Runs inside a worker."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from bench_run.engines import chain
from bench_run.errors import OutputError
from bench_run.files import writing
from bench_run.graph.chain import ChainGraph
from bench_run.measure.prepared import prepare_plan
from bench_run.reference import refuse
from bench_run.tensors.computed import compute_expected, lean
from bench_run.tensors.data import golden_of, inputs_of
from bench_run.tensors.layout import logical_view, to_storage
from bench_run.validate.expected import NOISE, StoredNoise, sums_of
from bench_run.validate.tolerance import Circumstances, noise_of
from bench_run.worker.messages import Evaluated
from bench_run.worker.reference_cache import cache_at, key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_run.engines.base import Engine
    from bench_run.graph.model import Graph
    from bench_run.tensors.layout import Storages
    from bench_run.worker.messages import Attempt, Evaluate

HIPDNN = "hipdnn:"
"""Stands before the folder of ``--write-golden`` for bundles in hipDNN's own convention."""

Arrays = Mapping[int, np.ndarray[Any, Any]]


def attempt(engine: Engine, request: Attempt) -> None:
    """Prepare the graph and, with data, run it once. Raises what the engine raises."""
    if request.data is None:
        chain.plan(engine, chain.build(engine, request.graph, {})).close()
        return
    with prepare_plan(engine, request.graph, request.data, request.variant):
        pass


def evaluate(engine: Engine | None, request: Evaluate) -> Evaluated:
    """Store what is expected in the request's folder as ``UID.npy``; then write golden tensors
    where these are asked for. Raises `OutputError`: the folder is there if that was about them."""
    graph, folder = request.graph, Path(request.folder)
    if engine is None and request.data.golden is None and not isinstance(graph, ChainGraph):
        refuse(graph)  # before inputs are made, which a type may not allow
    inputs = inputs_of(graph, request.data)
    expected: Arrays | None = None
    answer = Evaluated()
    if request.write_golden is not None or engine is not None:
        expected = compute(engine, graph, inputs)
        _store(graph, expected, folder)
        if engine is None:
            store_noise(graph, Circumstances(inputs, request.math, expected=expected), folder)
        answer = Evaluated("computed" if engine is None else None)
    elif request.data.golden is not None:
        golden = golden_of(graph, request.data).outputs
        _store(graph, {u: logical_view(s, graph.by_uid[u]) for u, s in golden.items()}, folder)
    else:
        answer = _formulas(request, inputs, folder)
    if engine is not None or request.data.golden is not None:
        stored = {int(path.stem): np.load(path) for path in folder.glob("*.npy")}
        circumstances = Circumstances(inputs, request.math, rounded_reference=True, expected=stored)
        store_noise(graph, circumstances, folder)
    if expected is not None and request.write_golden is not None:
        _write_golden(request, inputs, expected)
    if request.exact is not None:
        from bench_run.worker.approximation import store_errors

        store_errors(request.exact, graph, inputs, folder, compute_expected)
    return msgspec.structs.replace(answer, sums=sums_of(folder))


def compute(engine: Engine | None, graph: Graph, inputs: Storages) -> Arrays:
    """Return what an engine computes, or float64 formulas without one: logical arrays by uid."""
    if engine is None:
        return compute_expected(graph, inputs)
    with prepare_plan(engine, graph, inputs) as prepared:
        outputs = prepared.plan.download()
    return {uid: logical_view(s, graph.by_uid[uid]) for uid, s in outputs.items()}


def _formulas(request: Evaluate, inputs: Storages, folder: Path) -> Evaluated:
    """Leave the reference's outputs in `folder`: those of an earlier run with the same graph,
    inputs and code, otherwise new ones, which are stored. Return their origin."""
    graph = request.graph
    key = None if request.kept is None else key_of(graph, inputs, request.math)
    if request.kept is None or key is None:
        _compute_formulas(graph, inputs, folder, request.math)
        return Evaluated("computed")
    cache = cache_at(request.kept, request.kept_bytes)
    names = [*(f"{tensor.uid}.npy" for tensor in graph.outputs), NOISE]
    found, problem = _tried(lambda: cache.fetch(key, names, folder))
    if found == "read":
        return Evaluated("read")
    if problem is not None:
        shutil.rmtree(folder, ignore_errors=True)  # a part of an entry
    _compute_formulas(graph, inputs, folder, request.math)
    if problem is None:
        _, problem = _tried(lambda: cache.store(key, folder))
    not_kept = None if problem is None else f"{request.kept}: {problem}"
    return Evaluated("computed", not_kept, damaged=found == "damaged")


def _tried(use: Callable[[], str | None]) -> tuple[str | None, str | None]:
    """Return the answer of the cache, or its error in words: whatever fails there costs the cache,
    not the validation."""
    try:
        return use(), None
    except OSError as error:
        return None, error.strerror or str(error)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def _compute_formulas(graph: Graph, inputs: Storages, folder: Path, math: str) -> None:
    expected = compute_expected(graph, inputs)
    _store(graph, expected, folder)
    store_noise(graph, Circumstances(inputs, math, expected=expected), folder)


def store_noise(graph: Graph, circumstances: Circumstances, folder: Path) -> None:
    """Write the noise of a reference beside what is expected, if it can be measured."""
    noise = noise_of(graph, circumstances)
    if noise is not None:
        with writing(folder):
            (folder / NOISE).write_bytes(
                msgspec.json.encode(StoredNoise(circumstances.math, noise))
            )


def _store(graph: Graph, expected: Arrays, folder: Path) -> None:
    """Store all outputs, or no folder."""
    try:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for tensor in graph.outputs:
                np.save(folder / f"{tensor.uid}.npy", lean(expected[tensor.uid], tensor))
    except OutputError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _write_golden(request: Evaluate, inputs: Storages, expected: Arrays) -> None:
    assert request.write_golden is not None
    provenance = {
        "reference": "engine" if request.engine else "float64 formulas in NumPy",
        "seed": str(request.data.seed),
        "init": " ".join(request.data.init) or "by role",
    }
    write_golden_graph(
        request.graph, inputs, expected, request.write_golden, request.stem, provenance
    )


def write_golden_graph(
    graph: Graph,
    inputs: Storages,
    expected: Arrays,
    into: str,
    stem: str,
    provenance: Mapping[str, str],
) -> None:
    """Write the graph as ``STEM.json`` and its tensors in ``STEM.golden/``, in the folder `into`;
    after ``hipdnn:`` as ``STEM.tensor<uid>.bin``, hipDNN's own way. Raises `OutputError`."""
    from bench_run.graph.format.hipdnn_json import write_graph
    from bench_run.tensors.golden import write_golden, write_hipdnn_golden

    plain = into.removeprefix(HIPDNN)
    folder = Path(plain)
    outputs = {t.uid: to_storage(expected[t.uid], t) for t in graph.outputs}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{stem}.json").write_bytes(write_graph(graph))
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}") from error
    if plain != into:
        write_hipdnn_golden(graph, inputs, outputs, folder / f"{stem}.json", provenance)
    else:
        write_golden(graph, inputs, outputs, folder / f"{stem}.golden", provenance)
