"""Pipelines as chains: what is shared, what is an input, what cannot be linked."""

import pickle
import re

import numpy as np
import pytest

from bench_run.errors import GraphError
from bench_run.graph.chain import chain_fingerprint, layer_fingerprints, weights_of
from bench_run.graph.make import make_graphs
from bench_run.tensors.seeded.inputs import make_chain_inputs
from tests.bench_run.graph.chain.pipelines import ALL, REPEATED, RESIDUAL, VIEWS, chain


def names(tensors):
    return [tensor.name for tensor in tensors]


def weights(made):
    return [tensor.name for tensor in made.inputs if tensor.uid in weights_of(made)]


def test_every_tensor_that_a_layer_writes_is_an_output():
    assert ["conv:y", "again:y", "sum:y"] == names(chain(RESIDUAL).outputs)


def test_readers_of_one_input_share_its_memory():
    inputs = names(chain(RESIDUAL).inputs)
    assert ["conv:x", "conv:w", "conv:bias", "again:w", "again:bias"] == inputs


def test_weights_are_told_from_activations():
    expected = ["conv:w", "conv:bias", "again:w", "again:bias"]
    assert expected == weights(chain(RESIDUAL))


def test_layers_of_one_file_are_one_graph_with_weights_of_their_own():
    made = chain(RESIDUAL)
    first, second, _ = made.places
    assert first.graph is second.graph
    assert set(first.uids.values()).isdisjoint(second.uids.values())


def test_a_layer_that_repeats_has_weights_for_each_execution():
    made = chain(REPEATED)
    assert ["matmul", "matmul#2", "matmul#3", "act"] == [place.id for place in made.places]
    assert ["matmul:b", "matmul#2:b", "matmul#3:b"] == weights(made)


def test_what_follows_a_repeated_layer_reads_its_last_execution():
    made = chain(REPEATED)
    (alias,) = made.aliases.values()
    assert "matmul#3:c" == made.by_uid[alias.uid].name


def test_links_with_an_offset_read_another_part_of_the_memory():
    offsets = [alias.offset for alias in chain(VIEWS).aliases.values()]
    assert [0, 24, 7, 0] == offsets


def test_equal_layers_get_different_values():
    made = chain(REPEATED)
    inputs = make_chain_inputs(made, 0, ())
    first, second = (made.by_uid[place.uids[2]] for place in made.places[:2])
    assert not np.array_equal(inputs[first.uid], inputs[second.uid])


def test_a_layers_own_rule_fills_its_tensor():
    made = chain(RESIDUAL)
    inputs = make_chain_inputs(made, 0, ())
    by_name = {made.by_uid[uid].name: value for uid, value in inputs.items()}
    assert np.abs(by_name["conv:w"]).max() <= 0.3 < np.abs(by_name["again:w"]).max()


def test_the_command_lines_rule_wins():
    made = chain(RESIDUAL)
    inputs = make_chain_inputs(made, 0, ("conv:w=constant:2",))
    by_name = {made.by_uid[uid].name: value for uid, value in inputs.items()}
    assert {2.0} == set(by_name["conv:w"].tolist())


@pytest.mark.parametrize("name", ALL)
def test_a_chain_travels_between_processes(name):
    made = chain(ALL[name])
    assert made == pickle.loads(pickle.dumps(made))


def test_the_fingerprint_knows_the_links():
    other = RESIDUAL.replace('x = "again:y", b = "image"', 'x = "image", b = "again:y"')
    assert chain_fingerprint(chain(RESIDUAL)) != chain_fingerprint(chain(other))


def test_the_fingerprint_does_not_know_names():
    other = RESIDUAL.replace("again", "later").replace("conv:", "first:")
    other = other.replace('id = "conv"', 'id = "first"')
    assert chain_fingerprint(chain(RESIDUAL)) == chain_fingerprint(chain(other))


def test_the_layers_fingerprints_are_those_of_their_graphs():
    first, second, third = layer_fingerprints(chain(RESIDUAL))
    assert (first == second, first == third) == (True, False)


RELU = '[[graph]]\nid = "a"\nop = "relu: dims=4"\n[[graph]]\nid = "b"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RELU + 'op = "relu: dims=4 dtype=half"\ntensor = { x = "a:y" }', "half cannot be read"),
        (RELU + 'op = "relu: dims=5"\ntensor = { x = "a:y" }', "5 elements from 0 on do not lie"),
        (RELU + 'op = "relu: dims=2"\ntensor = { x = "a:y@3" }', "2 elements from 3 on do not lie"),
        (RELU + 'op = "relu: dims=4"\ntensor = { z = "a:y" }', "no tensor 'z'; choose from x"),
        (RELU + 'op = "relu: dims=4"\ntensor = { x = "a:x" }', "no tensor 'x'; choose from y"),
        (RELU + 'op = "relu: dims=4"\ninit = { v = "normal" }', "no tensor 'v'; choose from x"),
        (RELU + 'op = "relu: dims=4"\nweights = ["v"]', "no tensor 'v'; choose from x"),
    ],
)
def test_a_link_that_cannot_be_is_refused_with_the_place(text, message):
    with pytest.raises(GraphError, match=rf"net\.toml: b.*{re.escape(message)}"):
        chain(text)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("conv_fwd+bias+relu", ["w", "bias"]),
        ("matmul+bias: m=4 n=4 k=4", ["b", "bias"]),
        ("matmul: batch=2 m=4 n=4 k=4", []),
        ("matmul: batch=2 m=4 n=4 k=4 broadcast=b", ["b"]),
        ("mx_matmul: m=32 n=32 k=64", ["b", "b_scale"]),
        ("batchnorm_inference", ["mean", "inv_variance", "scale", "bias"]),
        ("layernorm", ["scale", "bias"]),
        ("add: dims=4x4", []),
        ("add: dims=4x4 rhs=channel", ["b"]),
        ("sdpa", []),
        ("conv_wgrad", []),
    ],
)
def test_weights_of_a_single_graph_follow_from_its_operations(spec, expected):
    graph = make_graphs(spec)[0]
    assert expected == [t.name for t in graph.inputs if t.uid in weights_of(graph)]
