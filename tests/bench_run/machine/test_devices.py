"""Several devices in one run: each engine once on each, found out by opening it."""

from __future__ import annotations

import json

import pytest
from bench_schema.files import read

import bench_run
from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import on_device, parse_spec
from bench_run.errors import UsageError
from bench_run.graph.fingerprint import fingerprint
from bench_run.graph.sources.load import load
from bench_run.options import Options, read_options
from bench_run.plan.engines import on_devices, plan_engines

FAST = {"rounds": 1, "iterations": 2, "warmup": 0}


@pytest.fixture
def two_amd_devices(root, monkeypatch):
    """hipDNN's stand-in, which shows two devices to every worker."""
    monkeypatch.setenv("PYTHONPATH", str(root / "tests" / "doubles"))
    monkeypatch.setenv("HIPDNN_DOUBLE_DEVICES", "2")
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("text", "devices"), [("0", (0,)), ("3", (3,)), ("0,2", (0, 2)), ("all", None)]
)
def test_the_flag_takes_a_number_several_or_all(text, devices):
    assert devices == read_options({"--device": text}).devices


@pytest.mark.parametrize("text", ["x", "-1", "", "0,", "1,1", "0-2"])
def test_anything_else_is_refused_with_what_was_expected(text):
    with pytest.raises(UsageError, match="--device: expected a device number, several such as 0,2"):
        read_options({"--device": text})


def test_two_sides_are_held_against_each_other_on_one_device():
    with pytest.raises(UsageError, match=r"--a cudnn\+device=0 --b cudnn\+device=1"):
        bench_run.run(["g.json"], a="numpy", b="numpy", device=(0, 1))


def planned(texts, device, visible):
    options = Options(device=device)
    engines = plan_engines(options, [parse_spec(text) for text in texts])
    return on_devices(options.devices, engines, dict(zip(texts, visible, strict=True)))


@pytest.mark.parametrize(
    ("texts", "device", "visible", "expected"),
    [
        (["cudnn"], 1, [4], [("cudnn", 1)]),
        (["cudnn"], (0, 1), [2], [("cudnn+device=0", 0), ("cudnn+device=1", 1)]),
        (["cudnn"], (2, 0), [4], [("cudnn+device=2", 2), ("cudnn+device=0", 0)]),
        (["cudnn+device=3", "torch"], 1, [4, 4], [("cudnn+device=3", 3), ("torch", 1)]),
        (["cudnn+device=1", "numpy"], (0, 1), [2, None], [("cudnn+device=1", 1), ("numpy", 0)]),
        (
            ["cudnn", "torch:cuda:1", "numpy"],
            (0, 1),
            [2, None, None],
            [("cudnn+device=0", 0), ("cudnn+device=1", 1), ("torch:cuda:1", 0), ("numpy", 0)],
        ),
    ],
)
def test_an_engine_is_planned_once_for_each_device(texts, device, visible, expected):
    found = planned(texts, device, visible)
    assert expected == [(engine.key, engine.options.device) for engine in found]


def test_what_has_no_devices_is_refused_where_several_are_asked_for():
    with pytest.raises(UsageError, match=r"--device 0,2: none of these engines .*numpy"):
        planned(["numpy"], (0, 2), [None])


def test_a_device_for_an_engine_without_a_choice_is_refused():
    with pytest.raises(UsageError, match=r"engine numpy\+device=1: it has no choice of devices"):
        planned(["numpy+device=1"], 0, [None])


def test_the_key_of_a_device_is_a_spec_that_can_be_given_again():
    spec = on_device(parse_spec("hipdnn:MIOPEN_ENGINE@/a+b/x.so"), 2)
    assert "hipdnn:MIOPEN_ENGINE+device=2@/a+b/x.so" == spec.text
    assert spec == parse_spec(spec.text)


@pytest.mark.parametrize("text", ["numpy+device=x", "numpy+device=", "numpy+device=1+device=2"])
def test_a_device_in_a_spec_is_one_number(text):
    with pytest.raises(UsageError, match="one number after"):
        parse_spec(text)


@pytest.mark.slow
def test_every_device_is_a_row_of_its_own_beside_the_processor(two_amd_devices, small_graph):
    engines = ["hipdnn", "numpy"]
    document = bench_run.run([str(small_graph)], engine=engines, device=(0, 1), **FAST)
    rows = [(engine.key, engine.device, engine.device_index) for engine in document.engines]
    assert [
        ("hipdnn+device=0", "hip:0", 0),
        ("hipdnn+device=1", "hip:1", 1),
        ("numpy", "cpu", None),
    ] == rows
    assert {"completed"} == {case.outcome.status for case in document.cases}


@pytest.mark.parametrize(("device", "cases"), [("0,1", 2), ("all", 1)])
def test_a_dry_run_lists_the_cases(two_amd_devices, bench_run_command, small_graph, device, cases):
    done = bench_run_command(small_graph, "--engine", "hipdnn", "--device", device, "--dry-run")
    assert ("small_add on hipdnn+device=1 " in done.stdout) == (device == "0,1")
    assert done.stdout.splitlines()[-1].startswith(f"{cases} case")


def test_a_device_that_is_not_there_ends_the_run_in_one_line(
    two_amd_devices, bench_run_command, small_graph
):
    done = bench_run_command(small_graph, "--engine", "hipdnn", "--device", "0,5")
    assert (1, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith("bench-run: engine hipdnn+device=5: ")
    assert 1 == len(done.stderr.splitlines())


def test_all_devices_without_any_is_one_clear_line(bench_run_command, small_graph):
    words = ("--engine", "numpy", "--device", "all", "-o", "out.json")
    done = bench_run_command(small_graph, *words)
    line = "bench-run: --device all: no GPU is visible here\n"
    assert (1, "", line) == (done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
def test_all_devices_share_the_graphs(two_amd_devices, bench_run_command, tmp_path, monkeypatch):
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "0,1")
    ops = [word for n in range(4) for word in ("--op", f"relu: n=1 c=2 h=4 w={4 + n}")]
    words = (*ops, "--engine", "hipdnn", "--device", "all", "--rounds", "2", "--iters", "4")
    done = bench_run_command(*words, "-o", "out.json")
    assert 0 == done.returncode, done.stderr
    document = read(tmp_path / "out.json")
    assert (4, 2, True) == (len(document.cases), len(document.parts), document.run.complete)


def test_open_cases_of_one_device_are_measured_again_on_it(
    two_amd_devices, bench_run_command, small_graph, tmp_path
):
    side = {"path": str(small_graph), "engine": "hipdnn+device=1"}
    graph = load([str(small_graph)]).graphs[0].graph
    row = {"verdict": "unclear", "fingerprint": fingerprint(graph)}
    record = {"kind": "bench-compare", "cases": [{**row, "base": side, "other": side}]}
    (tmp_path / "open.json").write_text(json.dumps(record))
    bench_run_command("--rerun-from", "open.json", "--rounds", "1", "--iters", "2", "-o", "o.json")
    again = json.loads((tmp_path / "o.json").read_text())["cases"]
    assert ["hipdnn+device=1"] == [found["engine"] for found in again]


def test_the_device_of_a_spec_wins_over_that_of_the_run():
    engines = plan_engines(Options(device=1), [parse_spec("cudnn+device=2"), parse_spec("cudnn")])
    assert [2, 1] == [engine.options.device for engine in engines]
    assert 0 == EngineOptions().device
