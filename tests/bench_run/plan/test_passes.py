"""What comes before a graph in a pass of its pipeline."""

from pathlib import Path

import pytest
from bench_schema.pipeline.read import parse_pipeline

from bench_run.errors import UsageError
from bench_run.graph.make import make_graphs
from bench_run.plan import passes
from bench_run.plan.passes import held_bytes, pass_bytes, rest_of_pass
from tests.bench_run.graph.chain.pipelines import REPEATED, RESIDUAL


def rest(text, *own):
    path = Path("net.toml")
    pipeline = parse_pipeline(text, path)
    graphs = {layer.id: make_graphs(layer.op)[0] for layer in pipeline.layers}
    return rest_of_pass(pipeline, graphs, path, own)


def ids(chain):
    return [place.id for place in chain.places]


def test_the_layers_before_run_and_those_of_the_pass_before():
    assert ["sum", "conv"] == ids(rest(RESIDUAL, "again"))
    assert ["again", "sum"] == ids(rest(RESIDUAL, "conv"))


def test_of_a_pair_neither_layer_runs_before():
    assert ["sum"] == ids(rest(RESIDUAL, "conv", "again"))
    assert ["again"] == ids(rest(RESIDUAL, "conv", "sum"))


def test_links_between_the_layers_before_stay():
    chain = rest(RESIDUAL, "sum")
    (link,) = chain.aliases.values()
    assert (["conv", "again"], chain.by_uid[link.uid].name) == (ids(chain), "conv:y")


def test_what_runs_after_a_layer_hands_nothing_to_the_one_before():
    assert {} == rest(RESIDUAL, "again").aliases


def test_of_a_layer_that_repeats_the_other_executions_run_before():
    assert ["act", "matmul", "matmul#2"] == ids(rest(REPEATED, "matmul"))


def test_where_there_is_no_other_layer_nothing_runs_before():
    assert rest('[[graph]]\nid = "a"\nop = "relu: dims=4x4"\n', "a") is None


def test_only_the_nearest_layers_run_as_many_as_fill_the_caches(monkeypatch):
    monkeypatch.setattr(passes, "MOST_REST_BYTES", 1)
    assert ["conv"] == ids(rest(RESIDUAL, "again"))


def test_a_small_layer_that_repeats_a_million_times_runs_as_often_as_fills_the_caches():
    text = REPEATED.replace("repeat = 3", "repeat = 1000000")
    assert 1 + passes.MOST_REPEATS == len(ids(rest(text, "matmul")))


def test_weights_that_lie_in_files_are_filled_by_rule():
    text = RESIDUAL.replace("uniform:-0.3:0.3", "file:weights/w.npy")
    assert all(not place.init for place in rest(text, "sum").places)


def test_a_pass_holds_what_its_layers_read_and_write_each_memory_once(tmp_path):
    path = tmp_path / "net.toml"
    path.write_text(RESIDUAL)
    conv, add = make_graphs("conv_fwd+bias+relu: n=2 c=4 h=6 w=6 dtype=float k=4 pad=1"), 4 * 288
    assert 2 * (held_bytes(conv[0]) - add) + 2 * add == pass_bytes([str(path)])


def test_a_pass_is_that_of_one_pipeline():
    with pytest.raises(UsageError, match="--cache pass: one pipeline"):
        pass_bytes(["a.toml", "b.toml"])
