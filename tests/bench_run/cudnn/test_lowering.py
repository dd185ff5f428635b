"""Graphs in the words of cuDNN's frontend, which checks them without a GPU."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from bench_run.engines.cudnn.library import KNOBS, UNNUMBERED_KNOBS, load
from bench_run.engines.cudnn.plans import settings
from bench_run.engines.cudnn.rewrite import FACTORS, rewrite
from bench_run.errors import UnsupportedGraphError
from bench_run.graph.make import make_graphs
from bench_run.graph.model import Tensor
from bench_run.graph.sources.load import load as load_graphs
from tests.conformance.graphs import FAMILIES
from tests.conformance.opening import CUDNN
from tests.support_matrix import lowered

REFUSED = (
    "avgpool_",
    "bn_backward_unsaved",
    "dequantized_",
    "experts_",
    "layernorm_backward_unsaved",
    "matmul_grouped",
    "maxpool_",
    "pointwise_gen_index",
    "quantize",
    "reduction_",
    "resample_",
    "sdpa_",
)
"""Families whose small graph of the conformance suite cuDNN does not take, packed and in float:
its attention wants heads of 8 n elements, its reductions rows or columns."""
EXCEPT = ("reduction_all",)


pytestmark = pytest.mark.needs(CUDNN)


@pytest.fixture(scope="module")
def cudnn():
    return load()


@pytest.fixture
def validated(cudnn):
    """Has the frontend check a graph as for compute capability 9.0."""
    return partial(lowered, cudnn)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_valid_for_the_frontend_or_refused_with_a_reason(validated, family):
    graph = FAMILIES[family]("float", "packed")
    if family.startswith(REFUSED) and family not in EXCEPT:
        with pytest.raises(UnsupportedGraphError, match=r"cudnn: .+: .+"):
            validated(graph)
    else:
        assert validated(graph)


@pytest.mark.parametrize("family", ["conv_fwd_2d", "matmul_2d", "layernorm", "rmsnorm_plain"])
@pytest.mark.parametrize("dtype", ["half", "bfloat16"])
def test_16_bit_types_are_valid_too(validated, family, dtype):
    assert validated(FAMILIES[family](dtype, "packed"))


def test_every_input_and_output_has_a_number_of_its_own(validated):
    graph = FAMILIES["conv_fwd_2d"]("half", "last")
    numbers = validated(graph)
    uids = [t.uid for t in (*graph.inputs, *graph.outputs)]
    assert len(uids) == len({numbers[uid] for uid in uids})
    assert 0 not in numbers.values()


def test_the_graphs_that_come_along_are_mostly_valid(validated, root):
    found = load_graphs([str(root / "graphs" / "smoke")]).graphs
    taken = 0
    for loaded in found:
        try:
            taken += bool(validated(loaded.graph))
        except UnsupportedGraphError as error:
            assert str(error).startswith("cudnn: ")  # noqa: PT017 - the rest of the loop goes on
    assert taken >= 0.7 * len(found)


def test_the_frontend_has_every_knob_that_has_a_name(cudnn):
    own = getattr(cudnn, "is_frontend_knob_type", lambda _knob: False)  # of engines in Python
    members = {name for name, knob in cudnn.knob_type.__members__.items() if not own(knob)}
    assert set(KNOBS.values()) - members <= {"SWAP_AB"}  # which came with 1.26
    assert members - {*KNOBS.values(), *UNNUMBERED_KNOBS} == {"NOT_SET"}


def test_knobs_become_members_of_the_frontends_type(cudnn):
    assert {cudnn.knob_type.TILE_SIZE: 3} == settings(cudnn, {"TILE_SIZE": 3})


def attention(dtype, *ports):
    """8 heads of 64 keys, with one more input for each port."""
    graph = make_graphs("sdpa: b=2 h=8 s=64 d=64 dtype=half")[0]
    node, tensors = graph.nodes[0], list(graph.tensors)
    inputs = dict(node.inputs)
    for port in ports:
        uid, count = 100 + len(tensors), 8 if port == "sink_token" else 1
        tensors.append(Tensor(uid, port, "float", (count,), (1,)))
        inputs[port] = uid
    node = replace(node, inputs=inputs)
    given = {node.outputs["o"], *(node.inputs[port] for port in "qkv")}
    tensors = [replace(t, data_type=dtype) if t.uid in given else t for t in tensors]
    return replace(graph, tensors=tuple(tensors), nodes=(node,))


def test_attention_with_sinks_is_valid(validated):
    assert validated(attention("half", "sink_token"))


def test_attention_in_8_bits_is_valid_and_factors_that_are_left_out_are_1(validated):
    graph = attention("fp8_e4m3", "descale_q", "descale_k", "descale_v")
    assert validated(graph)
    canonical = rewrite(graph)
    factors = canonical.nodes[0].inputs
    found = {port: canonical.by_uid[factors[port]].value for port in FACTORS}
    assert found["scale_o"] == 1
    assert found["scale_s"] * found["descale_s"] == 1


def test_gradients_of_attention_in_8_bits_are_refused(validated):
    graph = make_graphs("sdpa_bwd: b=2 h=8 s=64 d=64 dtype=half")[0]
    factor = Tensor(99, "descale_q", "float", (1,), (1,))
    node = replace(graph.nodes[0], inputs={**graph.nodes[0].inputs, "descale_q": 99})
    graph = replace(graph, tensors=(*graph.tensors, factor), nodes=(node,))
    with pytest.raises(UnsupportedGraphError, match="descale_q: not lowered"):
        validated(graph)
