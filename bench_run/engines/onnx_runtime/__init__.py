"""Engine ``onnxruntime``: graphs as ONNX models (`bench_run.graph.to_onnx`) on ONNX Runtime.

Spec: ``onnxruntime`` (on the GPU where the package has its provider, otherwise on the processor),
``onnxruntime:cpu``, ``onnxruntime:cuda``. The session reads and writes the buffers in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.engines.base import Availability, ModuleAbilities

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import Engine, EngineOptions, EngineSpec
    from bench_run.graph.model import Graph

NAME = "onnxruntime"
SUMMARY = "ONNX Runtime; onnxruntime:cpu, onnxruntime:cuda"
INSTALL = "pip install 'dnn-bench[onnxruntime]'"


def probe() -> Availability:
    """Report whether the package and `onnx` are installed; load neither."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    missing = [name for name in ("onnxruntime", "onnx") if find_spec(name) is None]
    if missing:
        return Availability(False, f"{' and '.join(missing)} not installed; {INSTALL}")
    for package in ("onnxruntime-gpu", "onnxruntime"):
        try:
            return Availability(True, f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return Availability(True, "onnxruntime of unknown version")


def probe_id(identifier: str) -> Availability:
    """Report whether ``onnxruntime:cuda`` can run: the package is asked for its providers."""
    answer = probe()
    if not answer.ok or identifier != "cuda":
        return answer
    from bench_run.engines.onnx_runtime.engine import CUDA_PROVIDER, WITHOUT_CUDA, load
    from bench_run.errors import EngineUnavailableError

    try:
        has_cuda = CUDA_PROVIDER in load().get_available_providers()
    except EngineUnavailableError as error:
        return Availability(False, str(error))
    return answer if has_cuda else Availability(False, WITHOUT_CUDA)


def environment(spec: EngineSpec, options: EngineOptions) -> Mapping[str, str]:
    from bench_run.engines.caches import NVIDIA, cache_environment

    return cache_environment(options, NVIDIA) if spec.id == "cuda" else {}


def open(spec: EngineSpec, options: EngineOptions) -> Engine:  # noqa: A001 - a name of the protocol
    from bench_run.engines.onnx_runtime.engine import open_engine

    return open_engine(spec, options)


def workspace(graph: Graph, spec: EngineSpec, device: str) -> int:  # noqa: ARG001
    """Estimate the bytes of a session besides inputs and outputs: every tensor in float twice, and
    three arrays of scores for attention, whose model is spelled out."""
    total = 8 * sum(tensor.elements for tensor in graph.tensors)
    for node in graph.nodes:
        if node.type.startswith("Sdpa"):
            (batch, heads, rows, _), k = (graph.by_uid[node.inputs[port]].dims for port in "qk")
            total += 3 * 4 * batch * heads * rows * k[2]
    return total


ABILITIES = ModuleAbilities(environment=environment, workspace=workspace, probe_id=probe_id)
