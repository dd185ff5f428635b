import hashlib
import json

import numpy as np
import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.errors import GraphError, OutputError
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.layouts import packed
from bench_run.graph.model import Graph, Node, Tensor
from bench_run.tensors.golden import (
    find_golden,
    read_golden,
    why_none,
    write_golden,
    write_hipdnn_golden,
)
from bench_run.tensors.layout import empty_storage
from tests.support import examples

ARRAY_TYPES = [name for name, row in DTYPES.items() if row.array_type is not None]
PROVENANCE = {"reference": "numpy float64", "seed": "0"}


def tensor(uid, data_type="float", dims=(2, 3), strides=None):
    return Tensor(uid, f"t{uid}", data_type, dims, packed(dims) if strides is None else strides)


def graph(x, y):
    node = Node("T", "", "float", {"x": x.uid}, {"y": y.uid}, {})
    return Graph("g", "float", "float", "float", (x, y), (node,))


def noise(tensor, seed):
    """Any bits, NaN and gaps included."""
    storage = empty_storage(tensor)
    bits = np.random.default_rng(seed).integers(0, 256, storage.nbytes, np.uint8)
    if tensor.data_type == "boolean":
        bits %= 2
    storage.view(np.uint8)[...] = bits
    return storage


SAMPLE = graph(tensor(0), tensor(5, "half", (4,)))


def sample_data(of=SAMPLE):
    return {0: noise(of.by_uid[0], 1)}, {5: noise(of.by_uid[5], 2)}


def ours(folder, of=SAMPLE):
    write_golden(of, *sample_data(of), folder / "conv.golden", PROVENANCE)
    return folder / "conv.golden"


def theirs(folder, of=SAMPLE):
    write_hipdnn_golden(of, *sample_data(of), folder / "conv.json", PROVENANCE)
    return folder


WRITERS = pytest.mark.parametrize("write", [ours, theirs])


@WRITERS
@pytest.mark.parametrize("data_type", ARRAY_TYPES)
@pytest.mark.parametrize("strides", [(3, 1), (1, 2), (8, 2)])
def test_a_bundle_comes_back_bit_for_bit(tmp_path, write, data_type, strides):
    of = graph(tensor(0, data_type, strides=strides), tensor(5, data_type, (4,)))
    write(tmp_path, of)
    golden = read_golden(of, find_golden(tmp_path / "conv.json"))
    inputs, outputs = sample_data(of)
    assert golden.inputs[0].tobytes() == inputs[0].tobytes()
    assert golden.outputs[5].tobytes() == outputs[5].tobytes()


@settings(max_examples=examples(20))
@given(dims=st.lists(st.integers(1, 4), max_size=4), data_type=st.sampled_from(ARRAY_TYPES))
def test_equal_data_gives_equal_files(tmp_path_factory, dims, data_type):
    of = graph(tensor(0, data_type, tuple(dims)), tensor(5))
    folders = [tmp_path_factory.mktemp("golden") for _ in range(2)]
    first, second = (
        [path.read_bytes() for path in write_golden(of, *sample_data(of), folder, PROVENANCE)]
        for folder in folders
    )
    assert first == second


@WRITERS
def test_provenance_is_kept(tmp_path, write):
    write(tmp_path)
    golden = read_golden(SAMPLE, find_golden(tmp_path / "conv.json"))
    assert PROVENANCE.items() <= dict(golden.provenance).items()


def test_golden_storages_may_be_written_to(tmp_path):
    ours(tmp_path)
    golden = read_golden(SAMPLE, find_golden(tmp_path / "conv.json"))
    assert golden.inputs[0].flags.writeable


def test_any_reader_of_safetensors_reads_our_tensors(tmp_path):
    folder = ours(tmp_path)
    with safetensors.safe_open(folder / "tensors.safetensors", "numpy") as file:
        assert file.get_tensor("0").tobytes() == sample_data()[0][0].tobytes()


@pytest.mark.parametrize("names", ["conv.tensor{}.bin", "golden/case_1/tensor{}.bin"])
def test_hipdnns_places_are_found(tmp_path, names):
    for uid, storage in {**sample_data()[0], **sample_data()[1]}.items():
        path = tmp_path / names.format(uid)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(storage.tobytes())
    graph_path = tmp_path / ("graph.template.json#case_1" if "case" in names else "conv.json")
    assert read_golden(SAMPLE, find_golden(graph_path)).outputs[5].size == 4


@WRITERS
def test_an_override_says_where_to_look(tmp_path, write):
    write(tmp_path / "elsewhere")
    bundle = find_golden("graphs/conv.json", tmp_path / "elsewhere")
    assert read_golden(SAMPLE, bundle).inputs[0].size == 6


def test_an_override_may_be_the_bundle_itself(tmp_path):
    assert find_golden("graphs/other.json", ours(tmp_path)) is not None


def test_nothing_is_found_where_nothing_is(tmp_path):
    assert find_golden(tmp_path / "conv.json") is None
    assert (
        why_none(tmp_path / "conv.json") == "there are no golden tensors of conv beside the graph"
    )


def test_a_pointer_without_its_data_is_told(tmp_path):
    (tmp_path / "conv.tensors.dvc").write_text("outs:\n- path: conv.tensor0.bin\n")
    assert find_golden(tmp_path / "conv.json") is None
    assert "conv.tensors.dvc points to them (dvc pull)" in why_none(tmp_path / "conv.json")


def pointer(folder, md5):
    text = f"outs:\n- md5: {md5}\n  size: 24\n  hash: md5\n  path: conv.tensor0.bin\n"
    (folder / "conv.tensors.dvc").write_text(text)


def test_a_pointers_md5_is_checked(tmp_path):
    pointer(theirs(tmp_path), "0" * 32)
    with pytest.raises(GraphError, match=r"t0 \(uid 0\): the md5 differs from the pointer's"):
        read_golden(SAMPLE, find_golden(tmp_path / "conv.json"))


def test_a_pointers_right_md5_is_fine(tmp_path):
    theirs(tmp_path)
    content = (tmp_path / "conv.tensor0.bin").read_bytes()
    pointer(tmp_path, hashlib.md5(content).hexdigest())
    assert read_golden(SAMPLE, find_golden(tmp_path / "conv.json")).inputs[0].size == 6


@WRITERS
@pytest.mark.parametrize(
    "changed",
    [
        graph(tensor(0, "float", (2, 4)), tensor(5, "half", (4,))),
        graph(tensor(0, "double"), tensor(5, "half", (4,))),
        graph(tensor(0, strides=(8, 2)), tensor(5, "half", (4,))),
    ],
)
def test_data_of_another_form_is_refused_by_the_tensors_name(tmp_path, write, changed):
    write(tmp_path)
    with pytest.raises(GraphError, match=r"t0 \(uid 0\)"):
        read_golden(changed, find_golden(tmp_path / "conv.json"))


@WRITERS
def test_a_missing_tensor_is_named(tmp_path, write):
    write(tmp_path)
    other = graph(tensor(0), tensor(6, "half", (4,)))
    if write is theirs:
        (tmp_path / "conv.tensor5.bin").unlink()
    with pytest.raises(GraphError, match=r"no golden data for t6 \(uid 6\)"):
        read_golden(other, find_golden(tmp_path / "conv.json"))


def test_a_cut_raw_file_is_named_with_both_sizes(tmp_path):
    theirs(tmp_path)
    path = tmp_path / "conv.tensor5.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(GraphError, match=r"t5 \(uid 5\): expected 8 bytes .*, got 7"):
        read_golden(SAMPLE, find_golden(tmp_path / "conv.json"))


def test_raw_data_of_a_tensor_the_graph_lacks_is_refused(tmp_path):
    theirs(tmp_path)
    (tmp_path / "conv.tensor77.bin").write_bytes(b"")
    with pytest.raises(GraphError, match="no tensor with uid 77"):
        read_golden(SAMPLE, find_golden(tmp_path / "conv.json"))


def test_a_cut_safetensors_file_is_refused(tmp_path):
    path = ours(tmp_path) / "tensors.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(GraphError, match="ends before its data"):
        read_golden(SAMPLE, find_golden(tmp_path / "conv.json"))


def test_one_changed_bit_is_found_and_named(tmp_path):
    path = ours(tmp_path) / "tensors.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(GraphError, match=r"t5 \(uid 5\): the sha256 differs from the manifest's"):
        read_golden(SAMPLE, find_golden(tmp_path / "conv.json"))


@pytest.mark.parametrize("text", ["", "[]", '{"format": 99}', '{"format": 1, "tensors": []}'])
def test_a_broken_manifest_is_refused_by_its_name(tmp_path, text):
    (ours(tmp_path) / "manifest.json").write_text(text)
    with pytest.raises(GraphError, match=r"manifest\.json"):
        read_golden(SAMPLE, find_golden(tmp_path / "conv.json"))


def test_the_manifest_says_what_each_tensor_is(tmp_path):
    manifest = json.loads((ours(tmp_path) / "manifest.json").read_text())
    digest = hashlib.sha256(sample_data()[1][5].tobytes()).hexdigest()
    assert manifest["tensors"]["5"] == {
        "name": "t5",
        "role": "output",
        "data_type": "half",
        "dims": [4],
        "strides": [1],
        "sha256": digest,
    }


def test_a_place_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        write_golden(SAMPLE, *sample_data(), tmp_path / "file" / "conv.golden", PROVENANCE)
