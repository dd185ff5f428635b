"""An option is taken by an engine of the run or refused in one line, never ignored."""

from __future__ import annotations

import json

import pytest

import bench_run
from bench_run.errors import UsageError
from tests.support import graph_json

QUICK = {"rounds": 1, "iterations": 2, "warmup": 0}

REFUSED = {
    "knob": ({"knobs": {"a": "b"}}, r"^--knob: no engine of this run has knobs \(numpy\)"),
    "device": ({"device": 3}, r"^--device 3: none of these engines has a choice of devices"),
    "events": ({"timer": "events"}, r"^--timer events: no engine of this run has a device clock"),
    "cupti": ({"timer": "cupti"}, r"^--timer cupti: no engine of this run has a device clock"),
    "replay": ({"replay": True}, "^--replay: numpy runs on the CPU"),
    "max rounds": ({"max_rounds": 9}, "^--max-rounds goes with --precision"),
}


@pytest.mark.parametrize(("options", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_no_engine_takes_is_refused(small_graph, options, sentence):
    with pytest.raises(UsageError, match=sentence):
        bench_run.run([str(small_graph)], engine=["numpy"], **options, **QUICK)


@pytest.mark.parametrize("options", [{"device": 0}, {"timer": "host"}, {"timer": "auto"}])
def test_what_is_so_anyway_is_taken(small_graph, options):
    document = bench_run.run([str(small_graph)], engine=["numpy"], **options, **QUICK)
    assert document.cases[0].outcome.status == "completed"


def unary(operation):
    graph = graph_json(operation, operation=operation)
    graph["tensors"] = [tensor for tensor in graph["tensors"] if tensor["uid"] != 1]
    del graph["nodes"][0]["inputs"]["in_1_tensor_uid"]
    return graph


@pytest.mark.parametrize("operation", ["reciprocal", "log", "sqrt"])
def test_an_init_that_holds_for_no_input_is_refused_with_the_way_out(tmp_path, operation):
    path = tmp_path / "g.json"
    path.write_text(json.dumps(unary(operation)))
    with pytest.raises(UsageError, match=r"name it: NAME=KIND, with NAME of a$"):
        bench_run.run([str(path)], engine=["numpy"], init=["constant:0"], **QUICK)
    document = bench_run.run([str(path)], engine=["numpy"], init=["a=constant:1"], **QUICK)
    assert document.cases[0].outcome.status == "completed"


def test_an_init_that_holds_for_some_graphs_is_noted_for_the_others(bench_run_command, tmp_path):
    (tmp_path / "log.json").write_text(json.dumps(unary("log")))
    (tmp_path / "add.json").write_text(json.dumps(graph_json()))
    words = [
        "log.json",
        "add.json",
        "-e",
        "numpy",
        "--rounds",
        "1",
        "--iters",
        "2",
        "--init",
        "constant:1",
    ]
    done = bench_run_command(*words)
    assert (done.returncode, "note: log.json: --init holds for none" in done.stderr) == (0, True)
