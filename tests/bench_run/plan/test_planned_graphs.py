"""What of a loaded graph goes on to engines."""

from dataclasses import replace

from bench_run.graph.sources.load import LoadedGraph
from bench_run.plan.cases import plan_graph
from tests.bench_run.graph.builders import conv_bias_relu, tensor


def loaded(graph, **more):
    return LoadedGraph(graph, "g.json", "0" * 64, b"{}", 1, **more)


def with_idle(count):
    whole = conv_bias_relu()
    idle = (tensor(100 + i, [1, 1, 1, 1, 1, 1]) for i in range(count))
    return replace(whole, tensors=(*whole.tensors, *idle))


def test_tensors_that_nothing_uses_are_not_handed_to_engines():
    assert plan_graph(loaded(with_idle(9))).loaded.graph == conv_bias_relu()


def test_they_stay_where_golden_files_may_name_them(tmp_path):
    graph = with_idle(1)
    assert plan_graph(loaded(graph, golden=tmp_path)).loaded.graph is graph


def test_offsets_of_a_used_tensor_stay_and_those_of_an_unused_one_go():
    whole = conv_bias_relu()
    used = replace(whole.tensors[0], ragged_offset_uid=50)
    tensors = (used, *whole.tensors[1:], tensor(50, [3], "int32", ragged_offset_uid=51))
    tensors += (tensor(51, [3], "int32"), tensor(52, [3], ragged_offset_uid=53), tensor(53, [3]))
    left = replace(whole, tensors=tensors).connected
    assert {1, 2, 3, 4, 5, 6, 50, 51} == {t.uid for t in left.tensors}
