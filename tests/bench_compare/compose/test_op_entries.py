"""A pipeline whose layers are op specs, as `run` and `tune` take it."""

from __future__ import annotations

from pathlib import Path

import pytest

import bench_run
from bench_compare.cli import main
from bench_run.cli import main as run_main

NET = """
[[graph]]
id = "conv"
op = "conv_fwd: n=1 c=2 h=4 w=4 k=2 r=3 s=3 pad=1"

[[graph]]
id = "act"
op = "relu: n=1 c=2 h=4 w=4"
tensor = {x = "conv:y"}
"""
GRAPHS = Path(__file__).parents[3] / "graphs"
QUICK = {"rounds": 2, "iterations": 4, "warmup": 0}


@pytest.fixture
def net(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.toml").write_text(NET)
    return "net.toml"


def test_documents_of_a_run_are_its_layers(net, capsys):
    bench_run.run([net], engine=["numpy"], output="a.json", **QUICK)
    assert 0 == main(["compose", net, "a.json"])
    assert "net.toml: 2 layers" in capsys.readouterr().out


def test_documents_of_single_operations_are_its_layers(net, capsys):
    ops = ["conv_fwd: n=1 c=2 h=4 w=4 k=2 r=3 s=3 pad=1", "relu: n=1 c=2 h=4 w=4"]
    bench_run.run([], op=ops, engine=["numpy"], output="a.json", **QUICK)
    assert 0 == main(["compose", net, "a.json"])
    assert "net.toml: 2 layers" in capsys.readouterr().out


def test_ways_that_change_what_layers_pass_on_are_out_and_this_is_said(net, capsys):
    bench_run.run([net], engine=["numpy"], output="a.json", **QUICK)
    assert 0 == main(["compose", net, "a.json"])
    said = " ".join(capsys.readouterr().out.split())
    assert "are not known: ways to run them that change these are out" in said


def test_the_table_of_tensors_is_hpvm_s(net, capsys):
    bench_run.run([net], engine=["numpy"], output="a.json", **QUICK)
    assert 0 == main(["compose", net, "a.json", "--tensors", "table.txt"])
    with open("table.txt") as file:
        head, values, *_ = file.read().splitlines()
    assert "** conv 1 fp32_time fp32_energy" == head
    name, milliseconds, energy = values.split()
    assert ("conv", "nan") == (name, energy)
    assert 0 < float(milliseconds) < 100
    capsys.readouterr()
    assert 0 == main(["compose", net, "a.json", "--tensors", "-"])
    assert capsys.readouterr().out.startswith("** conv 1 fp32_time")


def test_the_table_of_tensors_has_the_type_of_the_graph_whatever_its_name_is(net):
    text = (GRAPHS / "sample_relu.json").read_text()
    with open("my_float_add.json", "w") as file:
        file.write(text.replace('"float"', '"half"'))
    with open(net, "w") as file:
        file.write('[[graph]]\nid = "sum"\nfile = "my_float_add.json"\n')
    bench_run.run([net], engine=["numpy"], output="a.json", **QUICK)
    assert 0 == main(["compose", net, "a.json", "--tensors", "table.txt"])
    with open("table.txt") as file:
        assert "** sum 1 fp16_time fp16_energy\n" == next(file)


def test_the_table_of_tensors_and_configurations_are_not_made_at_once(net, capsys):
    words = ["--configurations", "c.txt", "--tensors", "table.txt"]
    assert 1 == main(["compose", net, "a.json", *words])
    assert "--tensors does not go with --configurations FILE" in capsys.readouterr().err


@pytest.mark.long
def test_documents_of_a_tuning_are_its_layers(net, capsys):
    words = ["-e", "numpy", "--space", "dtype=float,half", "-o", "t.json"]
    assert 0 == run_main(["tune", net, *words, "-q", "--iters", "4", "--warmup", "0"])
    assert 0 == main(["compose", net, "t.json"])
    assert "net.toml: 2 layers" in capsys.readouterr().out


def test_a_layer_that_was_not_measured_is_named(net, capsys):
    bench_run.run([], op=["relu: n=1 c=2 h=4 w=4"], engine=["numpy"], output="a.json", **QUICK)
    assert 1 == main(["compose", net, "a.json"])
    assert "which graphs conv are" in capsys.readouterr().out


def test_a_spec_that_made_several_graphs_names_none(net, capsys):
    spec = "relu: n=1,2 c=2 h=4 w=4"
    with open(net, "w") as file:
        file.write(f'[[graph]]\nid = "act"\nop = "{spec}"\n')
    bench_run.run([], op=[spec], engine=["numpy"], output="a.json", **QUICK)
    assert 1 == main(["compose", net, "a.json"])
    assert "which graphs act are" in capsys.readouterr().out
