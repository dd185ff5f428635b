"""ONNX files that are not as exporters of today write them: values, versions, types, files."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from bench_run.cli import main  # noqa: E402
from bench_run.graph.make.names import names  # noqa: E402
from bench_run.models.calls import ONNX  # noqa: E402
from bench_run.models.lower import ModelLowering, fuse  # noqa: E402
from bench_run.models.onnx_file import read_onnx  # noqa: E402
from bench_run.models.own import LOWERINGS  # noqa: E402
from bench_run.models.save import save_model  # noqa: E402
from bench_run.plan.load import read_chain  # noqa: E402
from tests.bench_run.models.node_models import feed, seen, written  # noqa: E402

DRAW = np.random.default_rng(0)
X = (4, 6)


def weights(*dims):
    return DRAW.standard_normal(dims)


def node(operation, inputs, outputs="y", **attributes):
    return helper.make_node(operation, inputs.split(), outputs.split(), **attributes)


def write(folder, nodes, dims=X, held=None, opset=18, kind=TensorProto.DOUBLE):
    """A model of x, which gives y."""
    ends = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, shape in (("x", dims), ("y", None))
    ]
    values = [numpy_helper.from_array(np.asarray(v), name) for name, v in (held or {}).items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], values)
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=9)
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


def lowered(path):
    lowering = ModelLowering(fuse(read_onnx(str(path))), LOWERINGS)
    lowering.run()
    return lowering


def saved(path):
    return save_model(lowered(path), path.parent / "out", weights=True, backward=False)


def computed(path, x, kind):
    """ONNX's own evaluation; that of onnxruntime in float32."""
    if kind != TensorProto.FLOAT:
        return ReferenceEvaluator(str(path)).run(None, {"x": x})[0]
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x.astype(np.float32)})[0]


def difference(path, dims=X, kind=TensorProto.DOUBLE):
    """Of the chain's float64 reference from another evaluation."""
    lowering, x = lowered(path), weights(*dims)
    made = save_model(lowering, path.parent / "out", weights=True, backward=False)
    if made.pipeline.left_out:
        return None, made.pipeline.left_out
    chain = read_chain(made.path).graph
    memory = written(chain, feed(lowering, chain, {"x": x}))
    found = seen(lowering.views["y"], memory)
    wanted = computed(path, x, kind)
    assert wanted.shape == found.shape
    return float(np.abs(found - wanted).max()), ()


EXPRESSED = {
    "clip by attributes": ([node("Clip", "x", min=-0.5, max=0.5)], {"opset": 6}),
    "clip from below": ([node("Clip", "x low")], {"held": {"low": np.array(-0.3)}}),
    "clip from above": (
        [helper.make_node("Clip", ["x", "", "high"], ["y"])],
        {"held": {"high": np.array(0.3)}},
    ),
    "leaky and elu": ([node("LeakyRelu", "x", "a", alpha=0.2), node("Elu", "a", alpha=0.5)], {}),
    "square": ([node("Pow", "x p")], {"held": {"p": np.array(2.0)}}),
    "sum by an operand": ([node("ReduceSum", "x a", keepdims=1)], {"held": {"a": np.array([1])}}),
    "largest and smaller": ([node("ReduceMax", "x", "m"), node("Min", "x m")], {}),
    "a bias of one row": (
        [node("Gemm", "x b c")],
        {"held": {"b": weights(6, 3), "c": weights(1, 3)}},
    ),
    "slices of two axes": (
        [node("Relu", "x", "r"), node("Slice", "r s e a", "z"), node("Exp", "z")],
        {"held": {"s": np.array([1, 2]), "e": np.array([3, 5]), "a": np.array([0, 1])}},
    ),
    "constants by number": (
        [
            node("Constant", "", "two", value_float=2.0),
            node("Cast", "two", "d", to=11),
            node("Mul", "x d"),
        ],
        {},
    ),
    "transposed convolution": (
        [node("ConvTranspose", "x w b", strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])],
        {"dims": (2, 4, 5, 5), "held": {"w": weights(4, 3, 3, 3), "b": weights(3)}},
    ),
    "quantised weights": (
        [
            node("DequantizeLinear", "q scale", "f"),
            node("Cast", "f", "w", to=11),
            node("MatMul", "x w"),
        ],
        {
            "opset": 19,
            "held": {"q": np.arange(18, dtype=np.int8).reshape(6, 3), "scale": np.float32(0.25)},
        },
    ),
    "an initial value as activation": (
        [node("Relu", "k", "r"), node("Add", "x r")],
        {"held": {"k": weights(4, 6)}},
    ),
}
BOOLS = np.arange(24).reshape(4, 6) % 3 == 0
EXPRESSED |= {
    "softmax of several axes": (
        [node("Softmax", "x")],
        {"dims": (2, 3, 4), "opset": 11, "kind": TensorProto.FLOAT},
    ),
    "a bias for each row": (
        [node("Gemm", "x b c")],
        {"held": {"b": weights(6, 4), "c": weights(4, 1)}},
    ),
    "a product of everything": (
        [node("Gemm", "x b c", transA=1, transB=1, alpha=0.5, beta=2.0)],
        {"held": {"b": weights(5, 4), "c": weights(6, 5)}},
    ),
    "whole numbers": (
        [
            node("Cast", "x", "i", to=7),
            node("Add", "i i", "j"),
            node("Gather", "t k", "g"),
            node("Relu", "x", "r"),
            node("Add", "r g"),
        ],
        {"held": {"t": weights(7, 6), "k": np.array([3, 1, 0, 6])}},
    ),
    "largest of three": (
        [node("Max", "x a b")],
        {"held": {"a": weights(4, 6), "b": weights(1, 6)}},
    ),
    "a mean of three": ([node("Mean", "x a x")], {"held": {"a": weights(6)}}),
    "a choice by a comparison": (
        [node("Greater", "x a", "g"), node("Not", "g", "n"), node("Where", "n x a")],
        {"held": {"a": weights(1, 6)}},
    ),
    "truth values": (
        [
            node("Less", "x a", "l"),
            node("Or", "l k", "o"),
            node("And", "o k", "n"),
            node("Xor", "n o", "t"),
            node("Where", "t x a"),
        ],
        {"held": {"a": weights(4, 6), "k": BOOLS}},
    ),
    "lengths that differ": ([node("Concat", "x a x", axis=1)], {"held": {"a": weights(4, 3)}}),
    "padding": (
        [node("Pad", "x p v")],
        {"held": {"p": np.array([0, 2, 1, 0]), "v": np.array(0.5)}},
    ),
    "any power": ([node("Abs", "x", "a"), node("Pow", "a p")], {"held": {"p": np.array(1.7)}}),
    "a power of each": ([node("Abs", "x", "a"), node("Pow", "a p")], {"held": {"p": weights(6)}}),
    "a layer norm whose scale is computed": (
        [node("Sigmoid", "s", "e"), node("LayerNormalization", "x e b")],
        {"opset": 17, "held": {"b": weights(6), "s": weights(6)}},
    ),
    "a norm over all axes": (
        [node("LayerNormalization", "x s b", axis=0)],
        {"opset": 17, "held": {"b": weights(4, 6), "s": weights(4, 6)}},
    ),
    "logarithms": ([node("LogSoftmax", "x", axis=0)], {"opset": 13}),
    "sums of several axes": (
        [node("ReduceLogSumExp", "x a", keepdims=0)],
        {"dims": (2, 3, 4), "held": {"a": np.array([0, 2])}},
    ),
    "squares": ([node("ReduceSumSquare", "x")], {}),
    "largest five": (
        [node("TopK", "x k", "v i"), node("Relu", "v")],
        {"held": {"k": np.array([5])}},
    ),
    "smallest two": (
        [node("TopK", "x k", "v i", largest=0, axis=0), node("Relu", "v")],
        {"held": {"k": np.array([2])}},
    ),
    "rows of the middle axis": (
        [node("Gather", "x i", axis=1)],
        {"dims": (2, 5, 3), "held": {"i": np.array([[0, 4], [2, 2]])}},
    ),
    "a broadcast product": (
        [node("MatMul", "x b")],
        {"dims": (2, 1, 4, 6), "held": {"b": weights(3, 6, 5)}},
    ),
    "a known first matrix": ([node("MatMul", "a x")], {"held": {"a": weights(3, 4)}}),
    "a known first matrix, a bias and an activation": (
        [
            node("Transpose", "x", "t", perm=[1, 0]),
            node("Gemm", "a t c", "g"),
            node("Relu", "g"),
        ],
        {"held": {"a": weights(3, 6), "c": weights(4)}},
    ),
    "indices from the end": (
        [node("Gather", "x i", axis=1)],
        {"held": {"i": np.array([-1, 0, -6])}},
    ),
    "a vector": ([node("MatMul", "x v")], {"held": {"v": weights(6)}}),
    "a transposition alone": ([node("Transpose", "x", perm=[1, 0])], {}),
    "an expansion": (
        [node("Expand", "x s", "e"), node("Relu", "e")],
        {"held": {"s": np.array([3, 4, 6])}},
    ),
    "lengths that are computed": (
        [
            node("Shape", "x", "s"),
            node("Gather", "s z", "n"),
            node("Concat", "n o", "t", axis=0),
            node("Reshape", "x t", "r"),
            node("Relu", "r"),
        ],
        {"held": {"z": np.array([0]), "o": np.array([-1])}, "dims": (2, 3, 4)},
    ),
    "a pool that rounds up": (
        [node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)],
        {"dims": (1, 2, 8, 9)},
    ),
    "a pool of the same size": (
        [node("AveragePool", "x", kernel_shape=[3, 2], auto_pad="SAME_UPPER")],
        {"dims": (1, 2, 8, 9)},
    ),
    "a pool with gaps": (
        [node("MaxPool", "x", kernel_shape=[2, 2], dilations=[2, 3], pads=[1, 1, 0, 1])],
        {"dims": (1, 2, 8, 9)},
    ),
    "a mean with gaps": (
        [node("AveragePool", "x", kernel_shape=[2, 2], dilations=[2, 2], pads=[1, 1, 1, 1])],
        {"dims": (1, 2, 8, 9), "opset": 19},
    ),
    "channels that are normed": (
        [node("InstanceNormalization", "x s b")],
        {"dims": (2, 3, 4, 5), "held": {"s": weights(3), "b": weights(3)}},
    ),
    "neighbouring channels": (
        [node("LRN", "x", size=3)],
        {"dims": (2, 5, 4, 3), "kind": TensorProto.FLOAT},
    ),
    "a slope for each channel": (
        [node("PRelu", "x s")],
        {"dims": (2, 3, 4, 5), "held": {"s": weights(3, 1, 1)}},
    ),
    "bounds that are computed": (
        [node("Exp", "l", "e"), helper.make_node("Clip", ["x", "", "e"], ["y"])],
        {"held": {"l": np.array(-0.2)}},
    ),
    "unit rows": ([node("LpNormalization", "x", axis=1, p=1)], {"kind": TensorProto.FLOAT}),
    "rounding": ([node("Round", "x", "r"), node("Sign", "x", "s"), node("Mul", "r s")], {}),
    "a SELU of its own": ([node("Selu", "x", alpha=1.3, gamma=0.7)], {}),
    "CELU and threshold": (
        [node("Celu", "x", "c", alpha=0.7), node("ThresholdedRelu", "c", alpha=0.2)],
        {"kind": TensorProto.FLOAT},
    ),
    "many gates": (
        [node("LSTM", "x w r b", "q h", hidden_size=3), node("Relu", "h")],
        {
            "dims": (5, 2, 4),
            "held": {"w": weights(1, 12, 4), "r": weights(1, 12, 3), "b": weights(1, 24)},
        },
    ),
    "gates of each step": (
        [node("GRU", "x w r", "q h", hidden_size=3, linear_before_reset=1), node("Relu", "q")],
        {"dims": (5, 2, 4), "held": {"w": weights(1, 9, 4), "r": weights(1, 9, 3)}},
    ),
}
LISTED = {
    "another vendor's": (node("Relu", "x", "z", domain="own"), {}, "an operation of own, not of"),
    "axes by attribute": (
        node("Add", "x b", "z", broadcast=1, axis=0),
        {"held": {"b": weights(4)}, "opset": 6},
        "no operation of hipDNN does this with its attributes",
    ),
    "a dropout that drops": (
        node("Dropout", "x ratio trains", "z"),
        {"held": {"ratio": np.array(0.5), "trains": np.array(True)}},
        "it drops elements",
    ),
    "a sum over no axis": (
        node("ReduceSum", "x axes", "z", noop_with_empty_axes=1),
        {"held": {"axes": np.array([], np.int64)}},
        "no operation of hipDNN does this with its attributes",
    ),
    "small whole numbers": (node("Cast", "x", "z", to=2), {}, "its data are uint8"),
    "places that are computed": (
        [
            node("Cast", "x", "f", to=7),
            node("Slice", "f u v", "s"),
            node("Reshape", "s m", "i"),
            node("CumSum", "x i", "z"),
        ],
        {"held": {"u": np.zeros(2, int), "v": np.ones(2, int), "m": np.zeros(0, int)}},
        "the values of its operand axis are not constants of the model",
    ),
    "an attribute of tomorrow": (
        node("LeakyRelu", "x", "z", left_window_size=3),
        {},
        "its attribute left_window_size",
    ),
    "both directions": (
        node("LSTM", "x w r", "z", hidden_size=3, direction="bidirectional"),
        {"dims": (5, 2, 4), "held": {"w": weights(2, 12, 4), "r": weights(2, 12, 3)}},
        "its direction is bidirectional",
    ),
    "the upper triangle": (node("Trilu", "x", "z"), {}, "the upper triangle, or one beside"),
}


@pytest.mark.parametrize("name", EXPRESSED)
def test_an_operation_becomes_graphs_that_compute_the_same(name, tmp_path):
    nodes, more = EXPRESSED[name]
    kind = more.get("kind", TensorProto.DOUBLE)
    error, left_out = difference(write(tmp_path, nodes, **more), more.get("dims", X), kind)
    assert () == left_out
    assert error < (1e-12 if kind == TensorProto.DOUBLE else 1e-6)


@pytest.mark.parametrize("name", LISTED)
def test_an_operation_without_a_graph_is_listed_with_the_reason(name, tmp_path):
    operation, more, reason = LISTED[name]
    nodes = operation if isinstance(operation, list) else [operation]
    path = write(tmp_path, [*nodes, node("Relu", "x")], **more)
    assert reason in saved(path).pipeline.left_out[-1].reason


def test_whole_numbers_are_no_floats(tmp_path):
    nodes = [node("Cast", "x", "i", to=7), node("Div", "i i", "j"), node("Relu", "x")]
    reasons = {row.operation: row.reason for row in saved(write(tmp_path, nodes)).pipeline.left_out}
    assert {"Div": "its data are int64"} == reasons


def test_an_empty_tensor_is_one_sentence(tmp_path, capsys):
    nodes = [node("Reshape", "x s")]
    path = write(tmp_path, nodes, (0, 8, 2), {"s": np.array([4, 2, -1])})
    assert 1 == main(["import", str(path), "-o", str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert (1, True) == (said.count("\n"), "Reshape (an empty tensor has no work)" in said)


def test_axes_that_are_not_known_are_not_taken_for_all(tmp_path):
    nodes = [node("Cast", "x", "i", to=7), node("ReduceSum", "x i", "z"), node("Relu", "x")]
    made = saved(write(tmp_path, nodes)).pipeline
    assert "ReduceSum" in [row.operation for row in made.left_out]


def test_what_has_no_known_dims_says_so(tmp_path):
    nodes = [
        node("NonZero", "x", "n"),
        node("Cast", "n", "f", to=11),
        node("Relu", "f", "z"),
        node("Relu", "x"),
    ]
    reasons = {row.operation: row.reason for row in saved(write(tmp_path, nodes)).pipeline.left_out}
    assert "one of its operands has no known dims" == reasons["Relu"]


def test_a_quantised_product_counts_as_the_work_that_it_is(tmp_path):
    nodes = [node("Cast", "x", "q", to=3), node("MatMulInteger", "q w", "z"), node("Relu", "x")]
    path = write(tmp_path, nodes, (64, 64), {"w": np.ones((64, 64), np.int8)})
    shares = {row.operation: row.share for row in saved(path).pipeline.left_out}
    assert shares["MatMulInteger"] > 0.95


def test_weights_in_bfloat16_are_read(tmp_path):
    tensor = helper.make_tensor("w", TensorProto.BFLOAT16, (6, 3), [0.5] * 18)
    path = write(tmp_path, [node("MatMul", "x w")], kind=TensorProto.BFLOAT16)
    model = onnx.load(path)
    model.graph.initializer.append(tensor)
    onnx.save(model, path)
    made = saved(path)
    (layer,) = made.pipeline.layers
    assert "bfloat16" in layer.file.name
    assert np.load(made.path.parent / "weights" / "MatMul_0.b.npy").max() == 0.5


@pytest.fixture
def outside(tmp_path):
    """A model whose weights lie in a file of their own."""
    path = write(
        tmp_path,
        [node("MatMul", "x w", "m"), node("Reshape", "m s")],
        held={"w": weights(6, 200), "s": np.array([2, -1])},
    )
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path


def test_data_in_other_files_are_read(outside):
    error, left_out = difference(outside)
    assert (True, ()) == (error < 1e-12, left_out)


def test_a_file_of_data_that_is_not_there_is_one_line(outside, capsys):
    (outside.parent / "w.bin").unlink()
    assert 1 == main(["import", str(outside), "-o", str(outside.parent / "out")])
    said = capsys.readouterr().err
    assert (True, 1) == ("w.bin" in said, said.count("\n"))


def test_functions_of_the_models_own_are_looked_into(tmp_path):
    path = write(tmp_path, [node("Twice", "x", domain="own")])
    model = onnx.load(path)
    twice = helper.make_function(
        "own", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], [helper.make_opsetid("", 18)]
    )
    model.functions.append(twice)
    onnx.save(model, path)
    assert (0.0, ()) == difference(path)


HELD = {
    "w": np.ones((4, 3, 3, 3)),
    "filter": np.ones((3, 1, 1, 1)),
    "one": [1],
    "nine": [9],
    "seven": [7, 7],
    "pair": [0.0, 1.0],
}
IMAGE = (1, 3, 8, 8)
DOES_NOT_FIT = {
    "batch norm without statistics": (node("BatchNormalization", "x one"), IMAGE),
    "pooling without a window": (node("MaxPool", "x"), IMAGE),
    "steps of no length": (node("Conv", "x w", auto_pad="SAME_UPPER", strides=[0, 0]), IMAGE),
    "padding of one side": (node("Conv", "x w", pads=[1]), IMAGE),
    "an order without an axis": (node("Transpose", "x", perm=[0, 0]), X),
    "an order of other axes": (node("Transpose", "x", perm=[2, 1, 0]), X),
    "softmax over no axis": (node("Softmax", "x", axis=9), X),
    "a norm over no axis": (node("LayerNormalization", "x one", axis=5), X),
    "an axis twice": (node("ReduceSum", "x seven"), X),
    "an element that is not there": (node("Gather", "x nine"), X),
    "another number of elements": (node("Reshape", "x seven"), X),
    "a slice of no axis": (node("Slice", "x one nine nine"), X),
    "a bias of another length": (node("ConvTranspose", "x filter seven"), IMAGE),
    "one operand of two": (node("MatMul", "x"), X),
    "bounds for two": (node("Clip", "x pair pair"), X),
}


@pytest.mark.parametrize("name", DOES_NOT_FIT)
def test_an_operation_that_does_not_fit_its_operand_is_refused_by_name(name, tmp_path, capsys):
    operation, dims = DOES_NOT_FIT[name]
    held = {key: np.asarray(value) for key, value in HELD.items()}
    path = write(tmp_path, [operation], dims, held, opset=18)
    known = onnx.load(path)
    del known.graph.output[:]
    known.graph.output.append(helper.make_tensor_value_info("y", TensorProto.DOUBLE, [7, 7]))
    onnx.save(known, path)
    assert 1 == main(["import", str(path), "-o", str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert (1, True) == (said.count("\n"), f": {operation.op_type} (" in said)


@pytest.mark.parametrize(
    ("operation", "a", "b"),
    [("Add", [1, 2], [1, 2, 3]), ("Div", [2], [0]), ("Pow", [2], [-1])],
)
def test_constants_that_do_not_go_together_are_no_constants(operation, a, b, tmp_path, recwarn):
    nodes = [node(operation, "a b", "c"), node("Add", "x c", "d"), node("Relu", "x")]
    made = saved(write(tmp_path, nodes, (2,), {"a": np.array(a), "b": np.array(b)}))
    assert (["Relu_2"], []) == ([layer.id for layer in made.pipeline.layers], recwarn.list)


def test_a_value_that_two_operations_write_is_one_line(tmp_path, capsys):
    path = write(tmp_path, [node("Relu", "x"), node("Sigmoid", "x")])
    assert 1 == main(["import", str(path), "-o", str(tmp_path / "out")])
    assert capsys.readouterr().err.endswith("no ONNX model: two things are called 'y'\n")


def test_a_variance_below_zero_is_not_folded_into_a_filter(tmp_path, recwarn):
    held = {"w": weights(4, 3, 1, 1), **{name: -np.ones(4) for name in "sbmv"}}
    nodes = [node("Conv", "x w", "c"), node("BatchNormalization", "c s b m v")]
    made = saved(write(tmp_path, nodes, IMAGE, held))
    assert (2, []) == (len(made.pipeline.layers), recwarn.list)


def test_names_of_inputs_that_mean_something_in_a_link_are_changed(tmp_path):
    """As exporters write them: ``onnx::Add_0``, ``serving_default_x:0``."""
    names = ("x:0", "x_0", "x 0")
    ends = [helper.make_tensor_value_info(one, TensorProto.DOUBLE, X) for one in (*names, "y")]
    nodes = [
        helper.make_node("Add", ["x:0", "x_0"], ["s:0"]),
        helper.make_node("CumSum", ["s:0", "axis"], ["t:0"]),
        helper.make_node("Mul", ["t:0", "x 0"], ["y"]),
    ]
    axis = numpy_helper.from_array(np.int64(0), "axis")
    graph = helper.make_graph(nodes, "net", ends[:3], ends[3:], [axis])
    sets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=9), tmp_path / "net.onnx")
    made = saved(tmp_path / "net.onnx")
    found = [each.name for each in made.pipeline.inputs]
    assert (["x_0", "x_0_2", "x_0_3"], 3) == (
        sorted(found, key=["x_0", "x_0_2", "x_0_3"].index),
        len(read_chain(made.path).graph.places),
    )


def open_model(tmp_path):
    path = write(tmp_path, [node("Relu", "x")], (2, 3))
    model = onnx.load(path)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    for value in model.graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, path)
    return str(path)


def test_open_dims_are_given_by_name(tmp_path, capsys):
    assert 0 == main(
        ["import", open_model(tmp_path), "--input", "x=5x3", "-o", str(tmp_path / "o")]
    )
    (made,) = (file.stem for file in (tmp_path / "o").glob("*.json"))
    assert "relu_5x3" in made


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the dims of x are not fixed; give them: --input x=1x3x224x224"),
        (["--input", "z=5x3"], "has no such input; it has x"),
        (["--input", "x=5x4"], "says ?x3"),
        (["--input", "5x3"], "expected NAME=DIMS, as in x=1x3x224x224"),
    ],
)
def test_dims_that_do_not_fit_are_one_line(words, message, tmp_path, capsys):
    assert 1 == main(["import", open_model(tmp_path), *words, "-o", str(tmp_path / "o")])
    said = capsys.readouterr().err
    assert (1, True) == (said.count("\n"), message in said)


def test_a_constant_that_would_be_huge_is_not_computed(tmp_path):
    nodes = [
        node("ConstantOfShape", "s", "big"),
        node("ReduceSum", "big", "sum"),
        node("Add", "x sum", "d"),
        node("Relu", "d"),
    ]
    made = saved(write(tmp_path, nodes, (2,), {"s": np.array([1 << 20, 1 << 20])}))
    assert ["ConstantOfShape"] == [row.operation for row in made.pipeline.left_out][:1]


def test_a_huge_constant_whose_size_is_computed_is_not_made(tmp_path):
    nodes = [
        node("Pow", "a b", "s"),
        node("ConstantOfShape", "s", "big"),
        node("ReduceSum", "big", "sum"),
        node("Add", "x sum", "d"),
        node("Relu", "d"),
    ]
    known = {"a": np.array([1024, 1024]), "b": np.array([2, 2])}
    made = saved(write(tmp_path, nodes, (2,), known))
    assert "ConstantOfShape" in {row.operation for row in made.pipeline.left_out}


def test_casts_of_constants_change_their_values(tmp_path):
    nodes = [
        helper.make_node("Cast", ["a"], ["b"], to=TensorProto.INT64),
        helper.make_node("Cast", ["b"], ["c"], to=TensorProto.DOUBLE),
        node("Mul", "x c"),
    ]
    made = saved(write(tmp_path, nodes, (2,), {"a": np.array([1.7, -2.5])}))
    (values,) = (np.load(file) for file in (made.path.parent / "weights").glob("*.npy"))
    assert [1.0, -2.0] == values.tolist()


def test_every_name_of_onnx_that_a_spec_knows_is_imported():
    known = [row.spelled.partition(".")[2] for row in names() if row.framework == "onnx"]
    assert len(known) > 90
    assert [] == [name for name in known if name not in ONNX]
