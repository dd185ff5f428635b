"""Inputs that are kept on disk are the inputs that were made."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace

import numpy as np
import pytest

import bench_run
from bench_run.files import BoundedFolder
from bench_run.graph.make import make_graphs
from bench_run.tensors import data as data_module
from bench_run.tensors.data import Data, inputs_of
from bench_run.tensors.seeded.inputs import make_inputs, read_inputs, store_inputs

SPECS = [
    "conv_fwd+bias+relu: n=1 c=3 h=5 w=5 k=4 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "batchnorm_bwd: n=2 c=3 h=4 w=4 dtype=bfloat16",
    "matmul: m=3 n=5 k=7 dtype=fp8_e4m3",
]


def bits(storages):
    return {uid: (s.dtype, s.tobytes()) for uid, s in storages.items()}


@pytest.mark.parametrize("spec", SPECS)
def test_what_is_read_is_what_was_made_bit_for_bit(tmp_path, spec):
    graph = make_graphs(spec)[0]
    made = make_inputs(graph, 3)
    path = str(tmp_path / "inputs")
    assert store_inputs(path, graph, made)
    assert bits(made) == bits(read_inputs(path, graph))


def test_nothing_kept_is_nothing_read(tmp_path):
    assert read_inputs(str(tmp_path / "none"), make_graphs(SPECS[0])[0]) is None


def test_a_file_of_another_size_is_not_read(tmp_path):
    graph = make_graphs(SPECS[0])[0]
    path = tmp_path / "inputs"
    store_inputs(str(path), graph, make_inputs(graph, 0))
    path.write_bytes(path.read_bytes()[:-1])
    assert read_inputs(str(path), graph) is None


def test_where_the_folder_is_gone_nothing_is_kept_and_nothing_left(tmp_path):
    graph = make_graphs(SPECS[0])[0]
    kept = store_inputs(str(tmp_path / "gone" / "inputs"), graph, make_inputs(graph, 0))
    assert (False, []) == (kept, list(tmp_path.iterdir()))


def test_inputs_are_made_once_and_then_read(tmp_path, monkeypatch):
    graph = make_graphs(SPECS[0])[0]
    data = Data(seed=5, cache=str(tmp_path / "inputs"))
    first = inputs_of(graph, data)
    monkeypatch.delattr(data_module, "_make_seeded")
    assert bits(first) == bits(inputs_of(graph, data)) == bits(make_inputs(graph, 5))


def test_inputs_that_were_read_may_be_written_to(tmp_path):
    graph = make_graphs(SPECS[0])[0]
    data = Data(seed=5, cache=str(tmp_path / "inputs"))
    inputs_of(graph, data)
    inputs_of(graph, data)[graph.inputs[0].uid][...] = 0
    again = inputs_of(graph, data)
    assert np.count_nonzero(again[graph.inputs[0].uid].astype(np.float32))


def test_without_a_file_nothing_is_kept(tmp_path):
    graph = make_graphs(SPECS[0])[0]
    data = replace(Data(seed=5), cache=None)
    assert bits(make_inputs(graph, 5)) == bits(inputs_of(graph, data))


def test_a_run_leaves_nothing_behind(tmp_path, small_graph, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    bench_run.run([str(small_graph)], engine=["numpy"], rounds=2, iterations=2, warmup=0)
    assert [] == list(scratch.iterdir())


def test_the_oldest_make_room(tmp_path):
    for age, name in enumerate(("new", "old", "older")):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    BoundedFolder(tmp_path, 16).make_room(4)
    assert ["new"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize(("claimed_bytes", "most_listed"), [(10, 50), (25, 250)])
def test_a_full_spool_is_listed_for_few_of_its_entries(
    tmp_path, monkeypatch, claimed_bytes, most_listed
):
    """For more of them where more is claimed than written; and it never holds more than it may."""
    spool, listed = BoundedFolder(tmp_path, 800), []
    remove_oldest = spool._remove_oldest
    monkeypatch.setattr(
        spool, "_remove_oldest", lambda size: listed.append(1) or remove_oldest(size)
    )
    most = 0
    for number in range(400):
        spool.make_room(claimed_bytes)
        (tmp_path / str(number)).write_bytes(bytes(10))
        most = max(most, 10 * len(list(tmp_path.iterdir())))
    assert most <= 800
    assert len(listed) <= most_listed
