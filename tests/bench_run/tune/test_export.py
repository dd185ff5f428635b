"""Winners in hipDNN's and PyTorch's files, and what these cannot hold."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from bench_run.errors import UsageError
from bench_run.graph.fingerprint import fingerprint
from bench_run.graph.make import make_graphs
from bench_run.tune.export import export

CONV = "conv_fwd: n=2 c=4 h=8 w=8 k=4 r=3 s=3 pad=1"


def record_of(*rows, libraries=None):
    """Of (spec, engine, case variant, variant) a record's essentials, and its graphs."""
    entries, graphs = [], {}
    for number, (spec, engine, chosen, variant) in enumerate(rows):
        graph = next(iter(make_graphs(spec)))
        graphs[fingerprint(graph)] = graph
        winner = SimpleNamespace(
            engine=engine, case_variant=chosen, variant=variant, plan={}, time_ns=2e6
        )
        entries.append(
            SimpleNamespace(name=f"g{number}", fingerprint=fingerprint(graph), chosen=winner)
        )
    engines = (SimpleNamespace(libraries=libraries or {}),)
    tuned = SimpleNamespace(entries=tuple(entries))
    return SimpleNamespace(tuned=tuned, document=SimpleNamespace(engines=engines)), graphs


def test_a_convolutions_winner_is_a_rule_with_dims_and_strides():
    row = (CONV, "hipdnn:all", {"engine": "MIOPEN_ENGINE"}, {"plan": "MIOPEN_ENGINE"})
    (rule,) = json.loads(export("hipdnn", *record_of(row)).text)["engine_overrides"]
    assert ("conv_fprop", "MIOPEN_ENGINE", [2, 4, 8, 8]) == (
        rule["op"],
        rule["engine_name"],
        rule["tensors"][0]["dim"],
    )


def test_winners_that_share_a_key_and_differ_are_refused():
    one = (CONV, "hipdnn:all", {"engine": "MIOPEN_ENGINE"}, {})
    two = (CONV + " dtype=half", "hipdnn:all", {"engine": "FUSILLI_ENGINE"}, {})
    with pytest.raises(UsageError, match="have one key"):
        export("hipdnn", *record_of(one, two))


def test_knobs_are_written_and_it_is_said_that_they_are_not_applied():
    row = (CONV, "hipdnn:X", {"engine": "X_ENGINE", "knob:SPLIT": "2"}, {})
    made = export("hipdnn", *record_of(row))
    (rule,) = json.loads(made.text)["engine_overrides"]
    assert [{"knob_id": "SPLIT", "type": "int", "value": 2}] == rule["knobs"]
    assert "does not apply knobs" in made.notes[-1]


def test_a_winner_that_is_another_graph_is_left_out():
    rows = [
        (CONV, "hipdnn:all", {"engine": "A"}, {}),
        (CONV + " dtype=half", "hipdnn:all", {"engine": "B"}, {"layout": "nhwc"}),
    ]
    made = export("hipdnn", *record_of(*rows))
    assert (1, True) == (len(made.notes), "layout" in made.notes[0])


def test_a_matrix_product_that_pytorch_won_is_a_row_of_tunableop():
    row = ("matmul: m=256 n=512 k=1024", "torch:cuda", {}, {})
    text = export("tunableop", *record_of(row, libraries={"torch": "2.9.0+cu12"})).text
    assert text.splitlines() == [
        "Validator,PT_VERSION,2.9.0",
        "GemmTunableOp_float_NN,nn_512_256_1024_ld_512_1024_512,Default,2",
    ]


def test_a_file_without_a_meaningful_entry_is_refused():
    with pytest.raises(UsageError, match="no entry has a meaning there"):
        export("tunableop", *record_of((CONV, "cudnn", {}, {})))


def test_an_unknown_kind_is_refused_with_the_known():
    with pytest.raises(UsageError, match="hipdnn, tunableop"):
        export("migraphx", *record_of())
