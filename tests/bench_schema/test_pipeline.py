"""Pipeline files: what they say, in which order things run, and every way to be wrong."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from bench_schema.errors import PipelineError
from bench_schema.pipeline import (
    Input,
    Layer,
    LeftOut,
    Link,
    Pipeline,
    parse_pipeline,
    pipeline_text,
    read_pipeline,
)
from hypothesis import given
from hypothesis import strategies as st

README = Path(__file__).parents[2] / "schema" / "README.md"
PATH = Path("folder/net.toml")
RESIDUAL = """
[[input]]
name = "image"
init = "normal"
[[graph]]
id = "add"
op = "add: dims=2x4"
tensor = { x = "second:y", b = "image" }
[[graph]]
id = "first"
op = "relu: dims=2x4"
tensor = { x = "image" }
[[graph]]
id = "second"
op = "sigmoid: dims=2x4"
tensor = { x = "first:y@0" }
"""


def parse(text):
    return parse_pipeline(text, PATH)


def test_layers_run_after_what_they_read_whatever_the_files_order():
    assert ["first", "second", "add"] == [layer.id for layer in parse(RESIDUAL).order]


def test_layers_that_wait_for_nothing_keep_the_files_order():
    text = "".join(f'[[graph]]\nid = "{name}"\nop = "relu"\n' for name in "cab")
    assert ["c", "a", "b"] == [layer.id for layer in parse(text).order]


def test_after_orders_without_handing_over_a_tensor():
    text = '[[graph]]\nid = "a"\nop = "relu"\nafter = ["b"]\n[[graph]]\nid = "b"\nop = "relu"'
    pipeline = parse(text)
    assert (["b", "a"], False) == ([layer.id for layer in pipeline.order], pipeline.is_linked)


def test_neighbours_are_pairs_between_which_a_tensor_passes():
    pairs = [(a.id, b.id) for a, b in parse(RESIDUAL).neighbours]
    assert [("first", "second"), ("second", "add")] == pairs


def test_layers_that_run_one_after_another_are_neighbours_without_a_tensor_between_them():
    rows = [f'[[graph]]\nid = "{name}"\nop = "x"\ntensor = {{ x = "a:y" }}' for name in "bc"]
    text = '[[graph]]\nid = "a"\nop = "x"\n' + "\n".join(rows)
    assert [("a", "b"), ("b", "c"), ("a", "c")] == [(a.id, b.id) for a, b in parse(text).neighbours]


def test_an_entry_without_an_id_is_called_by_its_number():
    assert ["1", "2"] == [e.id for e in parse('[[graph]]\nop = "relu"\n' * 2).layers]


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("conv1:y", Link("y", "conv1")),
        ("layer1.0:a.b", Link("a.b", "layer1.0")),
        ("qkv:c@768", Link("c", "qkv", 768)),
    ],
)
def test_a_link_names_layer_tensor_and_offset(text, link):
    name = text.partition(":")[0]
    rows = f'[[graph]]\nid = "{name}"\nop = "x"\n[[graph]]\nop = "y"\ntensor = {{ x = "{text}" }}'
    assert link == parse(rows).layers[1].links["x"]


ENTRY = '[[graph]]\nid = "a"\nop = "relu"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY + 'tensor = { x = "b:y" }', "a: tensor.x: there is no entry 'b'"),
        (ENTRY + 'tensor = { x = "image" }', "there is no input 'image'"),
        (ENTRY + 'tensor = { x = "a:y" }', "entries wait for each other: a → a"),
        (ENTRY + 'tensor = { x = "" }', "expected ID:TENSOR"),
        (ENTRY + "tensor = { x = 3 }", "tensor: expected a table of texts"),
        (ENTRY + 'after = ["b"]', "a: after: there is no entry 'b'"),
        (ENTRY + 'after = "a"', "after: expected a list of texts"),
        (ENTRY + ENTRY, "two entries have the id 'a'"),
        ('[[graph]]\nid = "a b"\nop = "relu"', "expected text without blanks"),
        ('output = ["b:y"]\n' + ENTRY, "output: there is no entry 'b'"),
        ("input = 3\n" + ENTRY, "expected a list of [[input]] tables"),
        ('[[input]]\ninit = "normal"\n' + ENTRY, "input[0]: expected a name"),
        (ENTRY + '[[left_out]]\noperation = "x"\ncount = 0\nshare = 0.1', "count=0"),
        (ENTRY + '[[left_out]]\noperation = "x"\ncount = 1\nshare = nan', "share=nan"),
        (ENTRY + "weights = [1]", "weights: expected a list of texts"),
    ],
)
def test_what_is_wrong_is_said_with_the_place(text, message):
    with pytest.raises(PipelineError, match=rf"folder/net\.toml.*{re.escape(message)}"):
        parse(text)


def test_a_circle_of_three_is_named():
    rows = [("a", "c"), ("b", "a"), ("c", "b")]
    text = "".join(f'[[graph]]\nid = "{i}"\nop = "relu"\nafter = ["{j}"]\n' for i, j in rows)
    with pytest.raises(PipelineError, match=r"wait for each other: (. → ){3}."):
        parse(text)


NAMES = st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters=":@#"), min_size=1)
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=8)


@st.composite
def pipelines(draw):
    """Each layer reads from any layers before it."""
    ids = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    layers = []
    for place, name in enumerate(ids):
        earlier = st.sampled_from(ids[:place]) if place else st.none()
        link = st.builds(Link, NAMES, earlier, st.integers(0, 10**9))
        links = draw(st.dictionaries(NAMES, link, max_size=2)) if place else {}
        layers.append(
            Layer(
                name,
                PATH.parent / f"{place}.json",
                repeat=draw(st.integers(1, 9)),
                after=tuple(draw(st.lists(earlier, max_size=2))) if place else (),
                links=links,
                init=draw(st.dictionaries(NAMES, TEXTS, max_size=2)),
                weights=draw(st.none() | st.just(("w",))),
                variant=draw(st.dictionaries(NAMES, TEXTS, max_size=1)),
                fingerprint=draw(st.none() | TEXTS),
            )
        )
    share = draw(st.floats(0, 1))
    return Pipeline(
        "net",
        draw(TEXTS),
        tuple(layers),
        (Input("image", draw(st.none() | TEXTS), draw(st.booleans())),),
        (Link("y", ids[-1]),),
        (LeftOut("softmax", 2, share, draw(TEXTS)),),
    )


@pytest.mark.long
@given(pipelines())
def test_what_is_written_is_read_again(pipeline):
    assert pipeline == parse(pipeline_text(pipeline, PATH.parent))


@pytest.mark.long
@given(pipelines())
def test_every_layer_runs_once_and_after_what_it_needs(pipeline):
    order = [layer.id for layer in pipeline.order]
    early = all(order.index(n) < order.index(e.id) for e in pipeline.layers for n in e.needs)
    assert (sorted(pipeline.by_id), True) == (sorted(order), early)


def test_graph_files_are_found_from_where_the_text_lies(tmp_path):
    layer = Layer("a", tmp_path / "graphs" / "a.json")
    pipeline = Pipeline("net", "", (layer,))
    path = tmp_path / "nets" / "net.toml"
    path.parent.mkdir()
    path.write_text(pipeline_text(pipeline, path.parent))
    (read,) = read_pipeline(path).layers
    assert replace(layer, file=tmp_path / "graphs" / "a.json") == replace(
        read, file=read.file.resolve()
    )


def test_the_readme_shows_a_pipeline_that_can_be_read():
    (example,) = re.findall(r"```toml\n(.*?)```", README.read_text(), re.DOTALL)
    assert ["conv", "act", "sum"] == [layer.id for layer in parse(example).order]


def test_the_readme_explains_every_key():
    from bench_schema.pipeline import GRAPH_KEYS, KEYS

    text = README.read_text()
    assert [] == [key for key in (*GRAPH_KEYS, *KEYS) if f"`{key}`" not in text]
