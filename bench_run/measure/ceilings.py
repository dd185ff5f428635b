"""Ceilings of a device: copy bandwidth, and matrix rate by data type, both measured.

Measured once for each device, driver and math mode, kept in the user's cache folder, and put into
the document, so that `achieved` can say which share of the roof a case reached. The copies are the
driver's, the matrix products those of the engine at hand, on random data, each after a rest.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the fields' types
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.files import cache_folder
from bench_run.measure.budget import Ceilings, SamplingBudget
from bench_run.measure.loop import REST_S, on_device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from bench_schema.document import Device

    from bench_run.engines.base import Engine
    from bench_run.graph.model import Graph
    from bench_run.tensors.layout import Storages

    Ask: TypeAlias = Callable[[str], "Ceilings | None"]

COPY_BYTES = 1 << 30
COPIES = 10
MATRIX = 4096
TYPES = ("half", "bfloat16", "float", "double")
BUDGET = SamplingBudget(warmup=0, iterations=20, rest_s=REST_S)


def measure_ceilings(engine: Engine) -> Ceilings:
    """Measure the ceilings of the engine's device. Runs inside a worker."""
    rates = {kind: rate for kind in TYPES if (rate := _matrix_rate(engine, kind)) is not None}
    return Ceilings(_copy_rate(engine), rates)


def _copy_rate(engine: Engine) -> float | None:
    from bench_run.streams.cuda import CudaStream
    from bench_run.streams.cuda_driver import driver

    cuda = driver()
    count = cuda.number("cuDeviceGetCount")
    here = [cuda.facts(i) for i in range(count) if cuda.facts(i).uuid == engine.facts.device]
    if not here:
        return None
    stream = CudaStream(here[0])
    source, target = stream.allocate(COPY_BYTES), stream.allocate(COPY_BYTES)
    stream.fill(source, 0x5A, COPY_BYTES)
    marks = []
    for _ in range(COPIES):
        begin = stream.mark()
        stream.copy(target, source, COPY_BYTES)
        marks.append((begin, stream.mark()))
    stream.synchronize()
    elapsed_ns = statistics.median(stream.elapsed_ns(*pair) for pair in marks)
    stream.free(source)
    stream.free(target)
    return 2 * COPY_BYTES / elapsed_ns


def _matrix_rate(engine: Engine, kind: str) -> float | None:
    """Return TFLOP/s of a large product by the best plan; None if the engine lacks this type."""
    from bench_run.tensors.seeded.inputs import make_inputs

    graph = product(kind)
    inputs = make_inputs(graph, 0)
    variants: Sequence[Mapping[str, str]] = ({},)
    alternatives = engine.abilities.alternatives
    if alternatives is not None:
        try:
            variants = alternatives(graph)
        except (UnsupportedGraphError, EngineError):
            return None
    rates = [_rate(engine, graph, inputs, variant) for variant in variants]
    return max((rate for rate in rates if rate is not None), default=None)


def _rate(
    engine: Engine, graph: Graph, inputs: Storages, variant: Mapping[str, str]
) -> float | None:
    try:
        plan = engine.plan(engine.build(graph, variant))
    except (UnsupportedGraphError, EngineError):
        return None
    try:
        plan.upload(inputs)
        plan.run()
        engine.stream.synchronize()
        samples_ns = on_device(plan, engine.stream, BUDGET, 1_000_000)
    finally:
        plan.close()
    return 2 * MATRIX**3 / statistics.median(samples_ns) / 1e3


def product(kind: str) -> Graph:
    """Return a large square matrix product of one data type."""
    from bench_run.graph.make import make_graphs

    made = make_graphs(f"matmul: m={MATRIX} n={MATRIX} k={MATRIX} dtype={kind}")
    return made[0]


def cache_path(device: Device, math: str) -> Path | None:
    name = f"ceilings-{device.uuid}-{device.driver}-{math}.json"
    base = cache_folder()
    return None if base is None else base / re.sub(r"[^A-Za-z0-9._-]", "_", name)


def read_ceilings(device: Device, math: str) -> Ceilings | None:
    """Return ceilings of an earlier run; None if there are none, or the file is damaged."""
    path = cache_path(device, math)
    if path is None:
        return None
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        rates = {str(kind): float(rate) for kind, rate in stored["tflops"].items()}
        return Ceilings(None if stored["gbps"] is None else float(stored["gbps"]), rates)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def store_ceilings(device: Device, math: str, ceilings: Ceilings) -> None:
    """Store for the next run; if the folder cannot be written, the next run measures again."""
    path = cache_path(device, math)
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(ceilings)), encoding="utf-8")
    except OSError:
        return


def add_ceilings(
    devices: tuple[Device, ...], keys: Mapping[str, str], math: str, ask: Ask
) -> tuple[Device, ...]:
    """Return the devices that the engines run on with their ceilings. `keys`: uuid of each engine's
    device by the engine's key; `ask` has an engine measure, if nothing is kept."""
    for key, uuid in keys.items():
        index = next((i for i, d in enumerate(devices) if uuid == d.uuid), None)
        if index is None or devices[index].ceiling_gbps is not None:
            continue
        ceilings = read_ceilings(devices[index], math)
        if ceilings is None:
            ceilings = ask(key)
            if ceilings is None:
                continue
            store_ceilings(devices[index], math, ceilings)
        devices = with_ceilings(devices, index, ceilings)
    return devices


def with_ceilings(devices: Sequence[Device], index: int, ceilings: Ceilings) -> tuple[Device, ...]:
    """Return the devices, the one at `index` with its ceilings."""
    rates = dict(ceilings.tflops)
    device = replace(devices[index], ceiling_gbps=ceilings.gbps, ceiling_tflops=rates)
    return (*devices[:index], device, *devices[index + 1 :])
