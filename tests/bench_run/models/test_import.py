"""Models of PyTorch and ONNX as pipelines that compute the same."""

import math

import pytest
from bench_schema.pipeline import read_pipeline

from bench_run.cli import main
from bench_run.errors import UsageError
from bench_run.models.model import parse_input
from bench_run.plan.load import read_chain

torch = pytest.importorskip("torch", reason="these are models of PyTorch")

from bench_run.models.torch_export import model_of, read_torch  # noqa: E402
from tests.bench_run.models.networks import (  # noqa: E402
    NETWORKS,
    difference,
    make_strange,
    make_writes_into_view,
    save,
)

NETS = "tests/bench_run/models/networks.py"


def exported(name):
    make, dims = NETWORKS[name]
    module = make().eval().double()
    found = torch.export.export(module, (torch.zeros(dims, dtype=torch.double),))
    return model_of(found, name, "double"), module, dims


@pytest.mark.slow
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "apart"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_float64_reference_of_the_chain_is_pytorchs_output(name, fused, tmp_path):
    model, module, dims = exported(name)
    made = save(model, tmp_path, fused=fused)
    assert (True, ()) == (difference(made.path, module, dims) < 1e-13, made.pipeline.left_out)


def test_images_may_lie_with_channels_last(tmp_path):
    model, module, dims = exported("cnn")
    made = save(model, tmp_path, layout="nhwc")
    assert difference(made.path, module, dims) < 1e-13


def test_fused_layers_are_named_after_their_modules(tmp_path):
    model, _, _ = exported("cnn")
    ids = [layer.id for layer in save(model, tmp_path).pipeline.layers]
    assert ["0", "3", "4.conv1", "4.conv2", "4", "5.conv1", "5.conv2", "5", "6", "8"] == ids


def test_equal_layers_are_one_graph_in_several_places(tmp_path):
    model, _, _ = exported("cnn")
    made = save(model, tmp_path)
    by_id = made.pipeline.by_id
    assert (by_id["4.conv1"].file, 7) == (by_id["5.conv1"].file, made.graphs)


def make_tied():
    """One linear layer applied twice, and a third module that has the same weight."""
    net = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(3)))
    net[2].weight = net[0].weight
    return torch.nn.Sequential(net[0], torch.nn.ReLU(), net[0], torch.nn.ReLU(), net[1], net[2])


def test_weights_that_layers_share_are_held_once(tmp_path):
    module = make_tied().eval().double()
    found = torch.export.export(module, (torch.zeros((4, 8), dtype=torch.double),))
    made = save(model_of(found, "tied", "double"), tmp_path)
    chain = read_chain(made.path).graph
    matrices = [tensor for tensor in chain.inputs if tensor.elements == 64]
    shared = [each for each in made.pipeline.inputs if each.weight]
    assert (2, 2) == (len(matrices), len(shared))  # the third bias is another one
    assert {t.uid for t in matrices} <= chain.weights
    assert difference(made.path, module, (4, 8)) < 1e-13


def test_a_residual_link_skips_the_layers_between(tmp_path):
    model, _, _ = exported("cnn")
    links = save(model, tmp_path).pipeline.by_id["5"].links
    assert {"x": "5.conv2:y", "b": "4:y"} == {name: link.text for name, link in links.items()}


def test_attention_reads_parts_of_the_packed_projection(tmp_path):
    model, _, _ = exported("encoder")
    made = save(model, tmp_path)
    (attention,) = (layer for layer in made.pipeline.layers if "q" in layer.links)
    assert [0, 32, 64] == [attention.links[name].offset for name in "qkv"]


def test_the_pipeline_says_the_fingerprint_of_each_graph(tmp_path):
    from bench_run.graph.fingerprint import fingerprint
    from bench_run.plan.load import read_chain

    model, _, _ = exported("cnn")
    made = save(model, tmp_path)
    chain = read_chain(made.path).graph
    found = {place.id: fingerprint(place.graph) for place in chain.places}
    assert found == {layer.id: layer.fingerprint for layer in read_pipeline(made.path).layers}


def test_backward_graphs_are_added_without_links(tmp_path):
    model, _, _ = exported("cnn")
    made = save(model, tmp_path, backward=True)
    added = [layer for layer in made.pipeline.layers if layer.id.startswith("backward.")]
    counts = {layer.file.name.partition("_n2c8")[0]: layer.repeat for layer in added}
    assert (4, 4, {}) == (counts["conv_dgrad"], counts["conv_wgrad"], added[0].links)


def strange(tmp_path):
    module = make_strange().eval()
    found = torch.export.export(module, (torch.zeros(3, 4),))
    return save(model_of(found, "strange", "float"), tmp_path)


def test_what_no_graph_expresses_is_listed(tmp_path):
    (row,) = strange(tmp_path).pipeline.left_out
    multiplications = 2 * (2 * 3 * 4 * 4 + 3 * 4)
    assert ("aten.erfinv.default", 1, 12 / (12 + multiplications)) == (
        row.operation,
        row.count,
        row.share,
    )


def test_what_it_left_is_an_input_for_what_follows(tmp_path):
    pipeline = strange(tmp_path).pipeline
    assert (["x", "erfinv"], "erfinv") == (
        [each.name for each in pipeline.inputs],
        pipeline.layers[1].links["a"].text,
    )


def test_a_write_through_a_view_is_listed_and_never_lost(tmp_path):
    module = make_writes_into_view().eval()
    found = torch.export.export(module, (torch.zeros(3, 4),))
    pipeline = save(model_of(found, "net", "float"), tmp_path).pipeline
    left_out = [row.operation for row in pipeline.left_out]
    assert (["aten.slice_scatter.default"], "slice_scatter") == (
        left_out,
        pipeline.by_id["two"].links["a"].text,
    )


def test_an_imported_model_runs_as_a_chain(tmp_path, capsys):
    words = ["import", "--torch", f"{NETS}:make_cnn", "--input", "2x3x16x16:half"]
    assert 0 == main([*words, "-o", str(tmp_path)])
    quick = ["--rounds", "1", "--iters", "2", "-e", "numpy", "--quiet"]
    assert 0 == main([str(tmp_path / "cnn.toml"), "--chain", *quick])
    assert "10 layers, 7 different graphs" in capsys.readouterr().out


def test_a_model_may_read_token_ids(tmp_path, capsys):
    path = tmp_path / "words.py"
    path.write_text(
        "from torch import nn\n\n\ndef make_words():\n"
        "    return nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4), nn.Softmax(-1))\n"
    )
    words = ["import", "--torch", f"{path}:make_words", "--input", "2x5:int64"]
    assert 0 == main([*words, "--direction", "both", "-o", str(tmp_path)])
    said = capsys.readouterr().out
    assert "left out" not in said
    assert "no backward graph is made for 1 x gather, 1 x softmax\n" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--torch", "none.py:make", "--input", "2x3"], "there is no file none.py"),
        (["--torch", "x", "--input", "2x3"], "expected FILE.py:FUNCTION"),
        (["--torch", f"{NETS}:nothing", "--input", "2x3"], "has no function 'nothing'"),
        (["--torch", f"{NETS}:make_cnn", "--input", "2x"], "expected dims and a type"),
        (["--torch", f"{NETS}:make_cnn", "--input", "2x3:int8"], "no type 'int8'"),
        (["--torch", f"{NETS}:make_cnn", "--input", "2x3x8:half"], "torch.export:"),
        (["--torch", f"{NETS}:make_cnn", "--input", "2x3", "--fuse", "maybe"], "no choice 'maybe'"),
        (
            ["--torch", f"{NETS}:make_depends_on_values", "--input", "2x3"],
            "the dims of index (aten.index.Tensor) depend on its values",
        ),
        (["none.onnx"], "onnx"),
    ],
)
def test_what_cannot_be_imported_is_one_line(words, message, tmp_path, capsys):
    assert 1 == main(["import", *words, "-o", str(tmp_path)])
    said = capsys.readouterr().err
    assert (True, 1) == (message in said, said.count("\n"))


def test_a_model_that_reads_only_token_ids_keeps_its_type(tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "def make_net():\n"
        "    parts = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 4)\n"
        "    return torch.nn.Sequential(*parts).half()\n"
    )
    model = read_torch(f"{tmp_path}/net.py:make_net", (parse_input("2x3:int64"),))
    assert "half" == model.data_type


def test_an_input_without_a_type_is_float():
    assert ((2, 3), "float") == parse_input("2x3")


def test_a_function_that_fails_says_why(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("def make():\n    raise ValueError('no such weights')\n")
    with pytest.raises(UsageError, match="ValueError: no such weights"):
        read_torch(f"{path}:make", (((2, 3), "float"),))


@pytest.mark.parametrize(
    ("text", "message"),
    [("return None", "returned NoneType, no torch.nn.Module"), ("", "returned NoneType")],
)
def test_a_function_that_returns_no_model_is_one_line(text, message, tmp_path, capsys):
    path = tmp_path / "bad.py"
    path.write_text(f"def make():\n    {text or 'pass'}\n")
    words = ["--torch", f"{path}:make", "--input", "2x3", "-o", str(tmp_path / "out")]
    assert 1 == main(["import", *words])
    said = capsys.readouterr().err
    assert (True, 1) == (message in said, said.count("\n"))


@pytest.mark.parametrize("name", ["cnn", "attention"])
def test_onnx_gives_the_same_network(name, tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed")
    from bench_run.models.onnx_file import read_onnx

    make, dims = NETWORKS[name]
    module, path = make().eval().double(), tmp_path / f"{name}.onnx"
    example = torch.zeros(dims, dtype=torch.double)
    torch.onnx.export(module, example, str(path), dynamo=False, opset_version=18)
    made = save(read_onnx(str(path)), tmp_path / "out")
    # Exporters write the constant of attention's scale in float32.
    assert (True, ()) == (difference(made.path, module, dims) < 1e-7, made.pipeline.left_out)


@pytest.fixture
def onnx_file(tmp_path):
    """Writes a model of nodes over the float input x; the result is y, weights are by name."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")

    def write(nodes, x, y, **weights):
        make, kind = onnx.helper, onnx.TensorProto.FLOAT
        held = [
            make.make_tensor(name, kind, dims, [1.0] * math.prod(dims))
            for name, dims in weights.items()
        ]
        ends = [
            [make.make_tensor_value_info(name, kind, dims)] for name, dims in (("x", x), ("y", y))
        ]
        made = [make.make_node(*node[:3], **(node[3] if node[3:] else {})) for node in nodes]
        sets = [make.make_opsetid("", 18), make.make_opsetid("own", 1)]
        graph = make.make_graph(made, "net", *ends, held)
        onnx.save(make.make_model(graph, opset_imports=sets, ir_version=9), tmp_path / "net.onnx")
        return str(tmp_path / "net.onnx")

    return write


@pytest.mark.parametrize(
    ("how", "pads"), [("SAME_UPPER", ((0, 0), (1, 1))), ("SAME_LOWER", ((1, 1), (0, 0)))]
)
def test_padding_that_onnx_leaves_to_the_reader_is_worked_out(how, pads, onnx_file):
    from bench_run.models.onnx_file import read_onnx

    attributes = {"auto_pad": how, "strides": [2, 2]}
    path = onnx_file(
        [("Conv", ["x", "w"], ["y"], attributes)], (1, 3, 8, 8), (1, 4, 4, 4), w=(4, 3, 3, 3)
    )
    (call,) = read_onnx(path).calls
    assert pads == (call.attributes["pad"], call.attributes["pad_post"])


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([("MatMul", ["x", "none"], ["y"])], "MatMul (one of its operands has no known dims)"),
        ([("Conv", ["x", "w"], ["y"])], "Conv (w is 4x3x3x3, expected 4x5x3x3)"),
        ([("NonZero", ["x"], ["y"])], "NonZero (no operation of hipDNN does this)"),
        (
            [("Other", ["x"], ["z"], {"domain": "own"}), ("Relu", ["z"], ["y"])],
            "Relu (one of its operands has no known dims)",
        ),
    ],
)
def test_an_onnx_file_that_gives_no_graph_says_why(nodes, message, onnx_file, tmp_path, capsys):
    path = onnx_file(nodes, (1, 5, 9, 9), None, w=(4, 3, 3, 3))
    assert 1 == main(["import", path, "-o", str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert (True, 1) == (message in said, said.count("\n"))


def test_a_file_that_is_no_onnx_is_one_line(tmp_path, capsys):
    pytest.importorskip("onnx", reason="onnx is not installed")
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x08\x07garbage\xff" * 20)
    assert 1 == main(["import", str(path), "-o", str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert (True, 1) == ("no ONNX model: " in said, said.count("\n"))


@pytest.mark.slow
def test_torchvisions_resnet50_is_imported_whole(tmp_path):
    for name in ("nms", "qnms"):  # a torchvision built for another PyTorch lacks its own library
        torch.library.define(
            f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        )
    models = pytest.importorskip("torchvision", reason="torchvision is not installed").models
    torch.manual_seed(0)
    module, dims = models.resnet50(weights=None).eval().double(), (1, 3, 64, 64)
    found = torch.export.export(module, (torch.zeros(dims, dtype=torch.double),))
    made = save(model_of(found, "resnet50", "double"), tmp_path)
    found = difference(made.path, module, dims) < 1e-11, len(made.pipeline.layers), made.graphs
    assert (True, 72, 30) == found
