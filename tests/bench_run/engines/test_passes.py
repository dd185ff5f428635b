"""What comes before a graph in a pass of its pipeline."""

from pathlib import Path

import pytest
from bench_schema.pipeline import parse_pipeline

from bench_run.engines import within_pass as passes
from bench_run.engines.within_pass import PipelinePass, held_bytes, read_pass, surroundings
from bench_run.errors import UsageError
from bench_run.graph.make import make_graphs
from bench_run.plan.load import graphs_of
from tests.bench_run.graph.chain.pipelines import REPEATED, RESIDUAL, VIEWS


def around(text, *own):
    path = Path("net.toml")
    pipeline = parse_pipeline(text, path)
    graphs = {layer.id: make_graphs(layer.op)[0] for layer in pipeline.layers}
    return surroundings(PipelinePass(path, pipeline, graphs), own)


def before(text, *own):
    found = around(text, *own)
    return [found.chain.places[index].id for index in found.before]


def links(found):
    """Reader and writer of each link by name, with the place where it starts."""
    tensors = found.chain.by_uid
    return {
        tensors[uid].name: (tensors[alias.uid].name, alias.offset)
        for uid, alias in found.chain.aliases.items()
    }


def test_the_layers_before_run_and_those_of_the_pass_before():
    assert ["sum", "conv"] == before(RESIDUAL, "again")
    assert ["again", "sum"] == before(RESIDUAL, "conv")


def test_of_a_pair_neither_layer_runs_before():
    assert ["sum"] == before(RESIDUAL, "conv", "again")
    assert ["again"] == before(RESIDUAL, "conv", "sum")


def test_a_layer_reads_what_the_one_before_wrote_and_is_read_by_the_one_after():
    assert {
        "again:x": ("conv:y", 0),
        "sum:x": ("again:y", 0),
        "sum:b": ("conv:x", 0),
    } == links(around(RESIDUAL, "again"))


def test_what_runs_between_the_two_of_a_pair_reads_nothing_of_the_first():
    """It would bring what was put into its outputs back to the second."""
    found = links(around(RESIDUAL.replace('b = "image"', 'b = "conv:y"'), "conv", "sum"))
    assert {"sum:x": ("again:y", 0), "sum:b": ("conv:y", 0)} == found


def test_two_inputs_of_a_case_never_lie_in_the_same_elements():
    """Each has values of its own: of `wide` the one that reads all from element 7 on is linked."""
    assert {"wide:x": ("qkv:y", 7)} == {
        name: where for name, where in links(around(VIEWS, "wide")).items() if "wide" in name
    }
    found = links(around(VIEWS, "scores"))
    assert [("qkv:y", 0), ("qkv:y", 24)] == [found["scores:a"], found["scores:b"]]


def test_of_a_layer_that_repeats_the_other_executions_run_before():
    assert ["act", "matmul", "matmul#2"] == before(REPEATED, "matmul")


def test_of_a_pair_whose_writer_repeats_its_last_execution_is_measured():
    assert ["matmul", "matmul#2"] == before(REPEATED, "matmul", "act")


def test_where_there_is_no_other_layer_nothing_runs_before():
    assert around('[[graph]]\nid = "a"\nop = "relu: dims=4x4"\n', "a") is None


def test_only_the_nearest_layers_run_as_many_as_fill_the_caches(monkeypatch):
    monkeypatch.setattr(passes, "MOST_REST_BYTES", 1)
    assert ["conv"] == before(RESIDUAL, "again")


def test_what_a_pass_touches_besides_its_nearest_layers_is_left(monkeypatch):
    whole = around(RESIDUAL, "again")
    monkeypatch.setattr(passes, "MOST_REST_BYTES", 1)
    few = around(RESIDUAL, "again")
    assert held_bytes(few.chain) + few.left_bytes == held_bytes(whole.chain) + whole.left_bytes
    assert held_bytes(few.chain) < held_bytes(whole.chain)


def test_a_small_layer_that_repeats_a_million_times_runs_as_often_as_fills_the_caches():
    text = REPEATED.replace("repeat = 3", "repeat = 1000000")
    assert 1 + passes.MOST_REPEATS == len(before(text, "matmul"))


def test_weights_that_lie_in_files_are_filled_by_rule():
    text = RESIDUAL.replace("uniform:-0.3:0.3", "file:weights/w.npy")
    places = around(text.replace('"normal"', '"file:x.npy"'), "sum").chain.places
    assert all(not place.init for place in places)


def test_a_pass_holds_what_its_layers_read_and_write_each_memory_once(tmp_path):
    path = tmp_path / "net.toml"
    path.write_text(RESIDUAL)
    conv, add = make_graphs("conv_fwd+bias+relu: n=2 c=4 h=6 w=6 dtype=float k=4 pad=1"), 4 * 288
    assert 2 * (held_bytes(conv[0]) - add) + 2 * add == read_pass([str(path)], graphs_of).bytes


def test_a_pass_is_that_of_one_pipeline():
    with pytest.raises(UsageError, match="--cache pass: one pipeline"):
        read_pass(["a.toml", "b.toml"], graphs_of)
