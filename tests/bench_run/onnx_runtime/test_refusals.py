"""What ONNX Runtime is not asked for, and how its errors become ours."""

from __future__ import annotations

import pytest

from bench_run.engines import availability, engine_module
from bench_run.engines.base import EngineOptions
from bench_run.engines.onnx_runtime.engine import errors, refuse_inexact
from bench_run.engines.spec import parse_spec
from bench_run.errors import EngineError, UnsupportedGraphError, UsageError
from bench_run.graph.make import make_graphs


def graph_of(spec):
    (graph,) = make_graphs(spec, "small", None, [])
    return graph


@pytest.mark.parametrize(
    "spec", ["conv_dgrad: n=1 c=2 h=4 w=4 k=2 r=3 s=3", "sdpa: b=1 h=1 s=4 d=8", "tan: dims=2x3"]
)
def test_double_that_a_gpu_would_round_is_refused_and_float_is_not(spec):
    with pytest.raises(UnsupportedGraphError, match="double results on a GPU are not double"):
        refuse_inexact(graph_of(f"{spec} dtype=double"))
    assert refuse_inexact(graph_of(f"{spec} dtype=float")) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NOT_IMPLEMENTED : Could not find an implementation", UnsupportedGraphError),
        ("x", EngineError),
    ],
)
def test_a_missing_kernel_is_unsupported_and_everything_else_fails(text, kind):
    with pytest.raises(kind, match="onnxruntime: run: "), errors((RuntimeError,), "run"):
        raise RuntimeError(text)


def test_an_id_that_means_nothing_is_refused():
    with pytest.raises(UsageError, match="expected cpu or cuda"):
        engine_module("onnxruntime").open(parse_spec("onnxruntime:tpu"), EngineOptions())


@pytest.mark.parametrize("providers", [["CPUExecutionProvider"], ["CUDAExecutionProvider"]])
def test_cuda_is_offered_where_the_package_has_its_provider(monkeypatch, providers):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    monkeypatch.setattr(runtime, "get_available_providers", lambda: providers)
    found = availability("onnxruntime:cuda")
    assert (providers == ["CUDAExecutionProvider"]) == found.ok
    assert found.ok or "pip install onnxruntime-gpu" in found.reason
