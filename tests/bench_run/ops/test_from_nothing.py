"""Graphs from nothing and their inputs, as a user asks for them on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support import graph_json

QUICK = ("--rounds", "1", "--iters", "1", "--warmup", "0", "--engine", "numpy")
SPEC = "conv_fwd+bias+relu: n=1,2 c=4 h=6 w=6 k=4 r=3 s=3 dtype=float,half"


def test_the_same_spec_saves_the_same_bytes(bench_run_command, tmp_path):
    for name in ("one", "two"):
        bench_run_command("--op", SPEC, "--save-graphs", tmp_path / name, "--dry-run")
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("one", "two")
    )
    assert one == two
    assert 4 == len(one)


@pytest.mark.slow
def test_saved_graphs_run_as_files_with_the_same_fingerprint(run_quickly, tmp_path):
    _, made = run_quickly("--op", SPEC, "--engine", "numpy", "--save-graphs", tmp_path / "saved")
    _, loaded = run_quickly(tmp_path / "saved", "--engine", "numpy")
    prints = [{case.graph.fingerprint for case in document.cases} for document in (made, loaded)]
    assert prints[0] == prints[1]


@pytest.mark.long
def test_both_directions_are_timed_apart(run_quickly):
    _, document = run_quickly("--op", "relu: n=1 direction=both", "--engine", "numpy")
    assert ["relu", "relu_bwd", "relu_fwd_bwd"] == [
        case.graph.name.split("_n1")[0] for case in document.cases
    ]


def test_a_named_tensor_is_filled_as_asked(bench_run_command, tmp_path):
    np.save(tmp_path / "b.npy", np.full((4, 8), 2.0, np.float32))
    done = bench_run_command(
        "--op",
        "mul: dims=4x8",
        "--init",
        "x=constant:3",
        "--init",
        f"b=file:{tmp_path}/b.npy",
        "--save-outputs",
        tmp_path / "out",
        *QUICK,
    )
    assert 0 == done.returncode, done.stderr
    (path,) = (tmp_path / "out").rglob("*.safetensors")
    assert path.read_bytes().endswith(np.full(32, 6.0, np.float32).tobytes())


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("nosuch=uniform", "no input 'nosuch' in these graphs; choose from x, b"),
        ("gaussian", "no distribution in 'gaussian'"),
        ("constant", "expected constant:VALUE"),
    ],
)
def test_a_rule_that_does_not_fit_is_one_line(bench_run_command, rule, said):
    done = bench_run_command("--op", "mul: dims=4x8", "--init", rule, *QUICK)
    assert (1, "", 1) == (done.returncode, done.stdout, len(done.stderr.splitlines()))
    assert said in done.stderr


def test_a_description_says_which_engines_support_the_graph(bench_run_command):
    done = bench_run_command("--describe", "--op", "mul: dims=4x8", "--engine", "numpy")
    assert done.stdout.rstrip().endswith("numpy: supported")


@pytest.fixture
def custom(tmp_path):
    """The path of a graph with an operation that only a plugin knows."""
    graph = graph_json()
    node = {"name": "own", "type": "CustomOpAttributes", "compute_data_type": "float"}
    tensors = {"input_tensor_uids": [0, 1], "output_tensor_uids": [2]}
    graph["nodes"] = [{**node, **tensors, "custom_op_id": "vendor.own", "data": []}]
    path = tmp_path / "custom.json"
    path.write_text(json.dumps(graph))
    return path


def test_a_description_says_why_an_engine_does_not_support_a_graph(bench_run_command, custom):
    done = bench_run_command("--describe", custom, "--engine", "numpy")
    assert "numpy: not supported: own (CustomOpAttributes)" in done.stdout, done.stderr


def test_a_custom_operation_is_unsupported_with_node_and_reason(run_quickly, custom):
    done, document = run_quickly(custom, "--engine", "numpy")
    (case,) = document.cases
    assert ("unsupported", 1) == (case.outcome.status, done.returncode)
    assert "own (CustomOpAttributes)" in case.outcome.reason
