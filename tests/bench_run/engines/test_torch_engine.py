"""What is PyTorch's own about the torch engine, on the CPU."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from bench_run.engines import torch_engine  # noqa: E402
from bench_run.engines.base import EngineOptions  # noqa: E402
from bench_run.engines.spec import parse_spec  # noqa: E402
from bench_run.engines.torch_engine.op import foreign_errors  # noqa: E402
from bench_run.errors import (  # noqa: E402
    EngineError,
    EngineUnavailableError,
    UnsupportedGraphError,
    UsageError,
)
from bench_run.tensors.seeded.inputs import make_inputs  # noqa: E402
from tests.conformance.data import case, misses  # noqa: E402
from tests.conformance.graphs import FAMILIES  # noqa: E402
from tests.conformance.opening import opened, outputs, planned  # noqa: E402
from tests.conformance.sketch import Sketch  # noqa: E402


def open_torch(text, **options):
    return torch_engine.open(parse_spec(text), EngineOptions(**options))


@pytest.mark.parametrize("text", ["torch:tpu", "torch:cuda:x", "torch:cpu+turbo", "torch@/x.so"])
def test_what_it_does_not_know_in_a_spec_is_refused(text):
    with pytest.raises(UsageError, match="torch"):
        open_torch(text)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_cuda_is_unavailable_and_says_so():
    with pytest.raises(EngineUnavailableError, match="GPU"):
        open_torch("torch:cuda")


def test_a_timer_it_does_not_have_is_refused():
    with pytest.raises(UsageError, match="--timer sundial"):
        open_torch("torch:cpu", timer="sundial")


def test_without_a_compiler_compile_is_unavailable_and_says_so(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(EngineUnavailableError, match="no-such-compiler"):
        open_torch("torch:cpu+compile")


def test_inference_mode_ends_with_the_last_engine_whatever_the_order():
    first, second = open_torch("torch:cpu"), open_torch("torch:cpu")
    assert torch.is_inference_mode_enabled()
    first.close()
    assert torch.is_inference_mode_enabled()
    second.close()
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize(("math", "expected"), [("fp32", "highest"), ("tf32", "high")])
def test_arithmetic_is_as_asked_for_while_it_is_open(math, expected):
    before = torch.get_float32_matmul_precision()
    engine = open_torch("torch:cpu", math=math)
    inside = torch.get_float32_matmul_precision()
    engine.close()
    assert (expected, before) == (inside, torch.get_float32_matmul_precision())


@pytest.mark.parametrize(("layout", "copies"), [("packed", 0), ("gaps", 1)])
def test_a_result_is_copied_if_it_is_not_in_the_outputs_layout(layout, copies):
    with opened("torch:cpu") as engine:
        graph = FAMILIES["matmul_batched"]("float", layout)
        with planned(engine, graph, make_inputs(graph, 0)) as plan:
            plan.run()
            with torch.autograd.profiler.profile() as found:
                plan.run()
    outermost = [event.name for event in found.function_events if event.cpu_parent is None]
    assert copies == outermost.count("aten::copy_")


def test_an_output_never_shares_memory_with_an_input():
    s = Sketch("same", "float")
    x, y = s.tensor(2, 3), s.tensor(2, 3)
    graph = s.node("PointwiseAttributes", {"in_0": x}, {"out_0": y}, operation="identity").graph()
    with opened("torch:cpu") as engine, planned(engine, graph, make_inputs(graph, 0)) as plan:
        plan.run()
        plan.upload({x: np.zeros(6, np.float32)})
        assert np.any(plan.download()[y] != 0)


@pytest.mark.slow
def test_large_results_take_no_new_pages_after_the_first_runs(root):
    pytest.importorskip("resource", reason="page faults are counted on Unix only")
    # In a process of its own: how the C library's heap looks depends on all that was before, and
    # so does whether it grows in one run, in three or in seven.
    program = """
import resource, statistics
from tests.conformance.graphs import pointwise
from tests.conformance.opening import opened, planned
graph = pointwise("relu_fwd", 1, "float", "packed", (16, 1024, 1024))
faults = []
with opened("torch:cpu") as engine, planned(engine, graph) as plan:
    for _ in range(24):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        plan.run()
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(int(statistics.median(faults[12:])))
"""
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert int(found.stdout) < 1000


def test_out_of_memory_is_an_engine_error_that_names_it():
    with pytest.raises(EngineError, match="out of memory"), foreign_errors("run"):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 TiB\nmore")


def test_a_type_without_a_kernel_is_unsupported():
    with pytest.raises(UnsupportedGraphError, match="not implemented"), foreign_errors("node"):
        raise RuntimeError("\"erf_vml_cpu\" not implemented for 'Float8_e5m2'")


def test_a_tensor_too_large_is_an_engine_error():
    s = Sketch("huge", "float")
    x, y = s.tensor(2**22, 2**22), s.tensor(2**22, 2**22)
    graph = s.node("PointwiseAttributes", {"in_0": x}, {"out_0": y}, operation="abs").graph()
    with opened("torch:cpu") as engine, pytest.raises(EngineError, match="memory on the host"):
        engine.plan(engine.build(graph, {}))
    assert graph.outputs[0].elements == 2**44


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", ["conv_bias_relu", "matmul_grouped", "layernorm", "sdpa_stats", "sdpa_lengths"]
)
def test_compiled_graphs_agree_with_the_reference(family):
    graph, inputs, expected = case(family, "float", "last")
    with opened("torch:cpu+compile") as engine:
        assert [] == misses(graph, outputs(engine, graph, inputs), expected)
