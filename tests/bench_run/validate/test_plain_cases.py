"""What a stranger tries first: right kernels pass, wrong ones do not, a tolerance is a check."""

from __future__ import annotations

import json

import numpy as np
import pytest

import bench_run
from bench_compare.cli import main as bench_compare

QUICK = {"rounds": 1, "iterations": 3, "warmup": 1}

KERNELS = """
import numpy as np

def zeros(x): return np.zeros_like(x)

def mean(x): return np.full_like(x, 1 / x.shape[-1])

def right(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def sums_in_lanes(x):
    '''Sixteen lanes, each adds one term after the other, as vector units do.'''
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    lanes = e.reshape(len(e), -1, 16)
    total = np.zeros((len(e), 16), np.float32)
    for i in range(lanes.shape[1]):
        total += lanes[:, i]
    sums = np.zeros(len(e), np.float32)
    for lane in range(16):
        sums += total[:, lane]
    return e / sums[:, None]

def one_percent(x): return right(x) * np.float32(1.01)

def halves(x):
    return right(x.astype(np.float16)).astype(np.float32)
"""

POOL = """
import numpy as np

INPUTS = {"x": ("n", "c", "h", "w")}
OUTPUTS = {"y": ("n", "c", "h-1", "w-1")}
SHAPES = [{"n": 2, "c": 3, "h": 16, "w": 16}]
DTYPES = ["float"]

def _windows(x, value):
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=value)
    return np.lib.stride_tricks.sliding_window_view(x, (4, 4), (2, 3)).max((-1, -2))

def reference(x): return _windows(x, -np.inf)

def right(x): return _windows(x, -np.inf)

def zero_padding(x): return _windows(x, 0)
"""


@pytest.fixture
def softmax(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)

    def run(name, op="softmax: dims=16x1024", **options):
        found = bench_run.run([], op=[op], engine=[f"kernel:{name}@{path}"], **{**QUICK, **options})
        return found.cases[0].validation

    return run


@pytest.mark.parametrize("name", ["right", "sums_in_lanes"])
def test_an_honest_softmax_is_right_on_adversarial_inputs(softmax, name):
    found = softmax(name, adversarial=True)
    assert (found.status, found.reason) == ("passed", None)


@pytest.mark.parametrize("name", ["zeros", "mean", "one_percent", "halves"])
def test_a_wrong_softmax_is_wrong(softmax, name):
    assert softmax(name).status == "failed"


@pytest.mark.parametrize("name", ["zeros", "mean", "right"])
def test_a_tolerance_that_a_constant_passes_is_not_a_check(softmax, name):
    found = softmax(name, rtol=1e-2, atol=1e-2)
    assert found.status == "failed"
    words = "not a check of y (uid 2): with rtol 0.01, atol 0.01 zeros would pass; leave them out"
    assert found.reason.startswith(words)


def test_a_tolerance_that_no_constant_passes_is_one(softmax):
    assert softmax("right", rtol=1e-2).status == "passed"
    assert softmax("one_percent", rtol=2e-2).status == "passed"
    assert softmax("mean", rtol=1e-2).status == "failed"


def test_zero_padding_of_a_max_pool_is_found_on_negative_values(tmp_path):
    path = tmp_path / "pool.py"
    path.write_text(POOL)
    names = {"right": "passed", "zero_padding": "failed"}
    found = bench_run.run(
        [str(path)],
        engine=[f"kernel:{name}@{path}" for name in names],
        init=["x=uniform:0:1"],
        adversarial=True,
        **QUICK,
    )
    assert [case.validation.status for case in found.cases] == list(names.values())
    assert "adversarial: negative values: " in found.cases[1].validation.reason


def test_a_type_that_is_not_documented_is_one_sentence(bench_run_command, tmp_path):
    tensor = {"data_type": "int4", "dims": [8, 8], "strides": [8, 1], "virtual": False}
    graph = {
        "name": "int4",
        **dict.fromkeys(("io_data_type", "intermediate_data_type", "compute_data_type"), "float"),
        "tensors": [{"uid": uid, "name": name, **tensor} for uid, name in ((1, "a"), (2, "y"))],
        "nodes": [
            {
                "type": "PointwiseAttributes",
                "name": "relu",
                "compute_data_type": "float",
                "inputs": {"in_0_tensor_uid": 1},
                "outputs": {"out_0_tensor_uid": 2},
                "parameters": {"operation": "relu_fwd"},
            }
        ],
    }
    (tmp_path / "int4.json").write_text(json.dumps(graph))
    done = bench_run_command("int4.json", "--engine", "numpy")
    assert "the packing of int4 is not documented" in done.stderr
    assert "--init" not in done.stdout + done.stderr


def off_in_one_of(x, every):
    """The source of a kernel that is wrong in one of so many elements."""
    return (
        "import numpy as np\n"
        f"def {x}(x):\n    y = np.maximum(x, 0)\n    y.reshape(-1)[::{every}] += 1\n    return y\n"
    )


@pytest.fixture
def relu(tmp_path):
    path = tmp_path / "relu.py"
    path.write_text(off_in_one_of("relu", 1000))

    def run(**options):
        op = ["relu: dims=100x100"]
        return bench_run.run([], op=op, engine=[f"kernel@{path}"], **{**QUICK, **options}).cases[0]

    return run


def test_a_share_of_the_elements_may_be_wrong(relu):
    assert relu().validation.status == "failed"
    passed, failed = (relu(matched=share).validation for share in (0.99, 0.9995))
    assert (passed.status, failed.status) == ("passed", "failed")
    assert passed.outputs[0].matched_ratio == pytest.approx(0.999)
    assert "(99.90% are right)" in failed.reason


def test_a_cosine_stands_in_place_of_a_tolerance(relu):
    passed, failed = (relu(cosine=least).validation for least in (0.99, 0.9999))
    assert (passed.status, failed.status) == ("passed", "failed")
    assert 0.99 < passed.outputs[0].cosine < 0.9999
    assert failed.reason.partition(" and what is expected is 0.99")[2].endswith(", below 0.9999")


@pytest.mark.parametrize("flag", ["--matched", "--cosine"])
def test_the_command_takes_a_share_and_refuses_others(bench_run_command, flag):
    words = ("--op", "relu: dims=8x8", "-e", "numpy", "--rounds", "1", "--iters", "3", flag)
    for value in ("0.9", "90%"):
        done = bench_run_command(*words, value)
        assert done.returncode == 0, done.stderr
    (shown,) = [line for line in done.stdout.splitlines() if "Validation: PASSED" in line]
    assert {"--matched": "100.00% within rtol=", "--cosine": "(cosine 1)"}[flag] in shown
    for value in ("2", "101%", "0", "many"):
        done = bench_run_command(*words, value)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert done.stderr.startswith(f"bench-run: {flag}: expected a number")


def test_a_share_that_zeros_have_is_not_a_check():
    found = bench_run.run([], op=["relu: dims=100x100"], engine=["numpy"], matched=0.4, **QUICK)
    assert "share zeros would pass; leave it out, or give more" in found.cases[0].validation.reason


def test_nan_is_wrong_whatever_share_may_be(tmp_path):
    path = tmp_path / "nan.py"
    path.write_text(off_in_one_of("relu", 1000).replace("+= 1", "= np.nan"))
    op = ["relu: dims=100x100"]
    for options in ({"matched": 0.5}, {"cosine": 0.5}):
        found = bench_run.run([], op=op, engine=[f"kernel@{path}"], **QUICK, **options)
        assert found.cases[0].validation.status == "failed"


def test_two_runs_with_other_shares_are_not_of_one_kind(relu, capsys, tmp_path):
    for name, share in (("a.json", 0.99), ("b.json", 0.9)):
        relu(matched=share, output=str(tmp_path / name))
    code = bench_compare([str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--strict"])
    said = capsys.readouterr()
    # 2 where this machine slowed down between the two
    assert (code in (1, 2), "matched" in said.out + said.err) == (True, True)


def test_an_error_of_one_percent_is_found_in_every_type(tmp_path):
    path = tmp_path / "off.py"
    product = "(a.astype('f8') @ b.astype('f8') * 1.01).astype(a.dtype)"
    path.write_text(f"import numpy as np\ndef matmul(a, b): return {product}")
    for dtype in ("float", "half", "bfloat16", "double"):
        op = [f"matmul: m=64 n=64 k=256 dtype={dtype}"]
        found = bench_run.run([], op=op, engine=[f"kernel@{path}"], **QUICK)
        assert found.cases[0].validation.status == "failed", dtype


def test_an_element_that_jumps_may_take_either_value_and_no_other_may(tmp_path):
    """A quotient next to a whole number is one more or less in float, and its remainder jumps."""
    path = tmp_path / "remainder.py"
    source = """
import numpy as np
INPUTS = {"a": ("n",), "b": ("n",)}
SHAPES = [{"n": 4096}]
def reference(a, b): return a - b * np.floor(a / b)
def right(a, b): return a - b * np.floor(a / b)
def wrong(a, b):
    y = reference(a, b)
    y[17] += 1
    return y
"""
    path.write_text(source)
    np.save(tmp_path / "b.npy", np.linspace(1, 3, 4096, dtype=np.float32))
    names = {"right": "passed", "wrong": "failed"}
    found = bench_run.run(
        [str(path)],
        engine=[f"kernel:{name}@{path}" for name in names],
        init=["a=uniform:0:100", f"b=file:{tmp_path / 'b.npy'}"],
        **QUICK,
    )
    assert [case.validation.status for case in found.cases] == list(names.values())


def outcome(tmp_path, spec, body, *init):
    """The status of a function in NumPy for a graph of this op spec."""
    operands = "x, b" if spec.startswith("mul") else "x"
    path = tmp_path / "kernel.py"
    path.write_text(f"import numpy as np\ndef kernel({operands}):\n    {body}\n")
    found = bench_run.run([], op=[spec], engine=[f"kernel@{path}"], init=list(init), **QUICK)
    return found.cases[0].validation.status


ZEROS = "return np.zeros_like(x)"


@pytest.mark.parametrize(
    ("spec", "init"),
    [
        ("mul: dims=64x1024 dtype=half", ("uniform:-0.001:0.001",)),
        ("softmax: dims=8x32768 dtype=half", ()),
        ("mul+floor: dims=8", ("uniform:1:3",)),
        ("mul+floor: dims=64x64", ("constant:1",)),
        ("trunc: dims=64x64 dtype=bfloat16", ()),
    ],
)
def test_zeros_are_wrong_where_numbers_are_small_or_jump(tmp_path, spec, init):
    assert outcome(tmp_path, spec, ZEROS, *init) == "failed"


def test_a_fused_product_and_floor_is_right_next_to_whole_numbers(tmp_path):
    body = "return np.floor(x.astype('f4') * b.astype('f4')).astype(x.dtype)"
    assert outcome(tmp_path, "mul+floor: dims=256x256 dtype=half", body) == "passed"
