"""`run_performance_test`: an operation's performance in one call, as dictionaries."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

import bench_run
from bench_run.commands.run import USAGE
from bench_run.errors import EngineUnavailableError, UsageError
from bench_run.opperf import op_spec
from bench_run.options import read_options

QUICK = {"warmup": 1, "runs": 2, "engine": ["numpy"], "rounds": 1}

SPECS = {
    "shapes of two operands": (
        "add",
        {"lhs": (4, 8), "rhs": (4, 8), "dtype": "float32"},
        "add: dims=4x8 dtype=float32",
    ),
    "a second operand that is broadcast": (
        "mul",
        {"lhs": (4, 8), "rhs": (1, 8)},
        "mul: dims=4x8 rhs_dims=1x8",
    ),
    "one operand": ("relu", {"data": (2, 3, 4)}, "relu: dims=2x3x4"),
    "a product": ("matmul", {"lhs": (8, 16), "rhs": (16, 4)}, "matmul: m=8 n=4 k=16"),
    "a batch of products": (
        "gemm",
        {"lhs": (2, 8, 16), "rhs": (2, 16, 4)},
        "matmul: batch=2 m=8 n=4 k=16",
    ),
    "an image": (
        "maxpool",
        {"data": (1, 2, 8, 8), "r": 2, "s": 2},
        "maxpool: n=1 c=2 h=8 w=8 r=2 s=2",
    ),
    "parameters": ("conv_fwd", {"n": 1, "pad": (1, 0)}, "conv_fwd: n=1 pad=1x0"),
}


@pytest.mark.parametrize("name", SPECS)
def test_inputs_become_an_op_spec(name):
    operator, given, expected = SPECS[name]
    assert expected == op_spec(operator, given)


@pytest.fixture(scope="module")
def rows():
    inputs = [{"lhs": (16, 16), "rhs": (16, 16), "dtype": "float32"}, {"data": (2, 3, 4, 5)}]
    return bench_run.run_performance_test(
        "add", inputs[:1], **QUICK
    ) + bench_run.run_performance_test(["relu"], inputs[1:], **QUICK)


@pytest.mark.long
def test_forward_and_backward_are_rows_of_their_own(rows):
    expected = [
        (operator, direction)
        for operator in ("add", "relu")
        for direction in ("forward", "backward", "forward_backward")
    ]
    assert expected == [(row["operator"], row["direction"]) for row in rows]


@pytest.mark.long
def test_a_row_has_times_memory_and_a_verdict(rows):
    assert all(row["validation"] == "passed" and row["time_ns"] > 0 for row in rows)
    assert 3 * 16 * 16 * 4 == rows[0]["buffer_bytes"]
    assert 2 == rows[0]["count"]


def test_rows_are_plain_enough_for_json(rows):
    assert "float32" == json.loads(json.dumps(rows))[0]["inputs"]["dtype"]


def test_backward_may_be_left_out():
    found = bench_run.run_performance_test("relu", [{"data": (4, 8)}], run_backward=False, **QUICK)
    assert ["forward"] == [row["direction"] for row in found]


@pytest.mark.parametrize(
    ("operator", "given", "said"),
    [
        ("ad", {}, "no operation 'ad'"),
        ("add", {"lhs": (4, 8), "colour": 1}, "no parameter 'colour'"),
        ("matmul", {"lhs": (4, 8), "rhs": (4, 8)}, "do not make a product"),
        ("conv_fwd", {"lhs": (4, 8), "rhs": (4, 8)}, "give its parameters: n, c"),
        ("add", {"lhs": (4, 8), "dtype": "floaty"}, "dtype='floaty'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(operator, given, said):
    with pytest.raises(UsageError, match=said):
        bench_run.run_performance_test(operator, [given], **QUICK)


def test_importing_the_package_loads_no_numpy():
    program = "import bench_run, sys; assert 'numpy' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr


@pytest.mark.long
def test_a_function_is_measured_as_the_operation_of_its_name(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import numpy as np\nimport bench_run\n"
        "def relu(x): return np.maximum(x, 0)\n"
        "def unheard_of(x): return x\n"
        "if __name__ == '__main__':\n    1 / 0\n"
    )
    spec = importlib.util.spec_from_file_location("mine", path)
    mine = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mine)
    given = [{"data": (4, 8)}]
    rows = bench_run.run_performance_test(mine.relu, given, **QUICK)
    assert [("numpy", "passed"), (f"kernel:relu@{path}", "passed")] == [
        (row["engine"], row["validation"]) for row in rows
    ]
    with pytest.raises(UsageError, match="no operation 'unheard_of'"):
        bench_run.run_performance_test(mine.unheard_of, given, **QUICK)
    with pytest.raises(UsageError, match="no operation 'len'"):
        bench_run.run_performance_test(len, given, **QUICK)


def test_a_script_that_runs_while_it_is_imported_is_refused_in_one_line(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import numpy as np\nimport bench_run\n"
        "def relu(x): return np.maximum(x, 0)\n"
        "bench_run.run_performance_test(relu, [{'data': (4, 8)}])\n"
    )
    with pytest.raises(EngineUnavailableError, match=r"script.py:4: .*below if __name__"):
        bench_run.run([], op=["relu: dims=4"], engine=[f"kernel@{path}"], rounds=1, iterations=1)


# The document's own words.


@pytest.mark.long
def test_the_documents_call_of_add_runs_as_written():
    from bench_run.opperf import mx, nd, run_performance_test

    results = run_performance_test(
        F=mx.nd.add,
        warmup=1,
        runs=2,
        engine=["numpy"],
        inputs=[
            {
                "lhs": (32, 16),
                "rhs": (32, 16),
                "initializer": nd.normal,
                "run_backward": True,
                "dtype": "float32",
            }
        ],
    )
    assert ["forward", "backward", "forward_backward"] == [each["direction"] for each in results]
    assert results[2]["MX_Add_Forward_Backward_Time"] == results[2]["time_ns"] / 1e9 > 0


@pytest.mark.needs("torch:cpu")
def test_the_documents_call_of_a_convolution_runs_as_written():
    from bench_run.opperf import mx, nd, nn, run_performance_test

    given = {
        "data": (2, 3, 16, 16),
        "data_initializer": nd.normal,
        "channels": 4,
        "kernel_size": (3, 3),
        "strides": (1, 1),
        "padding": (0, 0),
        "dilation": (1, 1),
        "layout": "NCHW",
        "activation": None,
        "run_backward": True,
        "dtype": "float32",
    }
    results = run_performance_test(
        F=nn.gluon.Conv2D, ctx=mx.cpu(), warmup=1, runs=2, inputs=[given]
    )
    assert {"torch:cpu"} == {each["engine"] for each in results}
    assert ["passed"] * 4 == [each["validation"] for each in results]


def test_an_operator_class_prints_its_times(capsys):
    from bench_run.opperf import Add

    add = Add(inputs={"dtype": "float64", "lhs": (8, 8), "rhs": (8, 8)}, **QUICK)
    shapes = {"lhs": (8, 8), "rhs": (8, 8)}
    rest = {"initializer": "mx.nd.normal", "run_backward": True, "dtype": "float64"}
    assert {**shapes, **rest} == add.inputs
    add.run_benchmark()
    add.print_benchmark_results()
    (line,) = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"MX_Add_Forward_Backward_Time - \S+ seconds", line)


@pytest.mark.long
def test_a_category_is_one_call(capsys):
    from bench_run.opperf import run_all_hyperbolic_operations_benchmarks

    found = run_all_hyperbolic_operations_benchmarks(shapes="small", **QUICK)
    assert found["MX_Sinh_Forward_Backward_Time"] > 0
    names = [line.partition(" - ")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == list(found)
    assert 5 == len(found)


ARITHMETIC = [
    *("Add_Forward_Backward", "Multiply_Forward_Backward", "Subtract_Forward_Backward"),
    *("Divide_Forward_Backward", "Modulo_Forward_Backward", "Power_Forward_Backward"),
    *("Negative_Forward_Backward", "Inplace_Add_Forward", "Inplace_Subtract_Forward"),
    *("Inplace_Multiply_Forward", "Inplace_Division_Forward", "Inplace_Modulo_Forward"),
]


@pytest.mark.long
def test_the_arithmetic_operations_have_the_documents_names_and_lines(capsys):
    from bench_run.opperf import run_all_arithmetic_operations_benchmarks

    found = run_all_arithmetic_operations_benchmarks(shapes="small", **QUICK)
    names = [f"MX_{name}_Time" for name in ARITHMETIC]
    lines = capsys.readouterr().out.splitlines()
    assert names == list(found)
    assert names == [line.partition(" - ")[0] for line in lines]
    assert all(re.fullmatch(r"MX_\w+ - \S+ seconds", line) for line in lines)


@pytest.mark.parametrize(
    "category", ["convolution", "loss", "activation", "comparison", "pooling", "creation"]
)
def test_the_documents_categories_are_functions(category):
    import bench_run.opperf

    assert callable(getattr(bench_run.opperf, f"run_all_{category}_operations_benchmarks"))


def test_one_operator_has_one_default_everywhere():
    from bench_run.opperf import Add, mx, run_performance_test

    quick = {"warmup": 0, "runs": 2, "rounds": 1, "reference": "none", "run_backward": False}
    graphs = {
        run_performance_test(F=F, **more, **quick)[0]["graph"]
        for F, more in ((mx.nd.add, {}), ("add", {}), (mx.nd.add, {"ctx": mx.cpu()}))
    }
    assert {"add_1024x1024_float"} == graphs
    assert (1024, 1024) == Add().inputs["lhs"]


@pytest.mark.long
def test_as_many_runs_as_were_asked_for():
    from bench_run.opperf import run_performance_test

    given = {"data": (2, 3), "dtype": "float64"}
    (row,) = run_performance_test("relu", [given], runs=50, run_backward=False, engine=["numpy"])
    assert (50, "iterations") == (row["iterations"], row["stopped_by"])


def test_the_profiler_sums_up_what_was_measured():
    from bench_run.opperf import profiler, run_performance_test

    profiler.reset()
    run_performance_test("relu", [{"data": (4, 8)}], run_backward=False, **QUICK)
    summary = json.loads(profiler.get_summary())
    assert summary["Time"]["MX_Relu_Forward_Time"]["Avg"] > 0
    memory = summary["Memory"]["MX_Relu_Forward"]
    assert (2 * 4 * 8 * 4, "growth of the process") == (memory["buffer_bytes"], memory["peak_is"])
    assert summary == json.loads(profiler.get_summary(reset=True))
    assert {"Time": {}, "Memory": {}} == json.loads(profiler.get_summary())


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--output-format", "csv", "--output-file", "r.csv"], {"csv": "r.csv"}),
        (["--output-format", "md", "--output-file", "r.md"], {"markdown": "r.md"}),
        (["--output-format", "json", "--output-file", "r.json"], {"output": "r.json"}),
        (["--output-file", "r.json"], {"output": "r.json"}),
        (["--output-format", "csv"], {"csv": "-"}),
        (["--ctx", "gpu(2)"], {"engine": ("torch:cuda:2",)}),
        (["--ctx", "mx.gpu(0)", "--dtype", "float64"], {"engine": ("torch:cuda:0",)}),
    ],
)
def test_the_flags_of_opperf_say_what_ours_say(words, found):
    from docopt import docopt

    options = read_options(docopt(USAGE, ["--op", "all", *words], default_help=False))
    assert found == {name: getattr(options, name) for name in found}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ctx", "tpu"], "--ctx tpu: expected cpu or gpu"),
        (["--ctx", "cpu", "-e", "numpy"], "--ctx and --engine: give one or the other"),
        (["--output-file", "a.json", "-o", "b.json"], "--output-file and --output: give one"),
        (["--output-format", "xml"], "choose from json, md, csv"),
    ],
)
def test_flags_of_opperf_that_do_not_make_sense_say_why(words, said):
    from docopt import docopt

    with pytest.raises(UsageError, match=said):
        read_options(docopt(USAGE, ["--op", "all", *words], default_help=False))


def test_an_initializer_may_be_a_callable(tmp_path):
    given = {"data": (4, 8), "initializer": lambda shape: np.full(shape, 2.0), "dtype": "float64"}
    (row,) = bench_run.run_performance_test(
        "square", [given], run_backward=False, save_outputs=str(tmp_path / "kept"), **QUICK
    )
    (path,) = (tmp_path / "kept").iterdir()
    (found,) = load_file(path).values()
    assert "passed" == row["validation"]
    assert (4.0 == found).all()


@pytest.mark.parametrize(
    ("operator", "given", "said"),
    [
        ("take", {"x": (8, 4), "i": (3, 3)}, r"take: i has 3x3, expected \(k\)"),
        ("dense", {"x": (8, 4), "w": (5, 6)}, r"dense: w has 5x6, expected \(k, c\) with n=8, c=4"),
        ("where", {"x": (8, 4), "b": (8, 5)}, r"where: b has 8x5, expected \(dims\)"),
        ("softmux", {}, "did you mean softmax"),
        ("mm,exp", {}, "one operator at a time"),
        ("conv2d", {"kernel_size": (1, 2, 3, 4)}, "kernel_size=1x2x3x4: expected at most 2"),
    ],
)
def test_shapes_that_do_not_fit_name_port_and_rule(operator, given, said):
    with pytest.raises(UsageError, match=said):
        bench_run.run_performance_test(operator, [given], **QUICK)
