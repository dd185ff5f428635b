"""Operators of one's own: a file with a reference becomes graphs that everything else treats as
any graph."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import numpy as np
import pytest

import bench_run
from bench_run.errors import GraphError, UsageError
from bench_run.graph.fingerprint import fingerprint
from bench_run.graph.work import family, flops, moved_bytes
from bench_run.user.cases import graphs_of_file

SCALE = """
import numpy as np

INPUTS = {"x": ("rows", "cols"), "w": ("cols",)}
SHAPES = [{"rows": 4, "cols": 8}, {"rows": 2, "cols": 16}]
DTYPES = ["float", "half"]

def reference(x, w):
    return x * w

def mine(x, w):
    return x * w

def wrong(x, w):
    return x * w * 1.01

def half(x, w):
    return (x.astype(np.float16) * w.astype(np.float16)).astype(x.dtype)
"""


def write(folder, text, name="scale.py"):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def run(*graphs, engine, **options):
    usual = {"rounds": 1, "iterations": 3, "warmup": 1}
    return bench_run.run([str(g) for g in graphs], engine=engine, **{**usual, **options})


@pytest.mark.long
def test_a_file_is_a_graph_for_each_shape_and_data_type(tmp_path):
    cases = graphs_of_file(f"case@{write(tmp_path, SCALE)}")
    names = [case.graph.name for case in cases]
    assert [
        f"scale_rows{r}_cols{c}_{t}" for r, c in ((4, 8), (2, 16)) for t in ("float", "half")
    ] == names
    x, w, y = cases[0].graph.tensors
    assert ((4, 8), (8,), (4, 8)) == (x.dims, w.dims, y.dims)
    assert ["x", "w", "y"] == [x.name, w.name, y.name]
    assert "scale" == family(cases[0].graph)


@pytest.mark.long
def test_results_are_held_against_the_reference_with_a_tolerance_that_follows_from_it(tmp_path):
    path = write(tmp_path, SCALE)
    engines = ["numpy", *(f"kernel:{name}@{path}" for name in ("mine", "wrong", "half"))]
    cases = run(f"{path}#scale_rows4_cols8_float", engine=engines).cases
    found = {case.engine.partition("@")[0]: case.validation.status for case in cases}
    assert {
        "numpy": "passed",
        "kernel:mine": "passed",
        "kernel:wrong": "failed",
        "kernel:half": "failed",
    } == found
    assert cases[1].validation.outputs[0].tolerance_source == "default"


@pytest.mark.long
def test_a_name_chooses_one_case_and_items_replace_shapes_and_types(tmp_path):
    path = write(tmp_path, SCALE)
    (one,) = graphs_of_file(f"case@{path}#scale_rows2_cols16_half")
    assert "half" == one.graph.tensors[0].data_type
    made = graphs_of_file(f"{path}: rows=3,5 dtype=bfloat16")
    assert [(3, 8), (5, 8)] == [case.graph.tensors[0].dims for case in made]
    assert {"bfloat16"} == {case.graph.tensors[0].data_type for case in made}
    (again,) = graphs_of_file(one.path)
    assert one.graph == again.graph


FULL = """
import numpy as np

INPUTS = {
    "x": ("n", "2*d", "half"),
    "ids": {"dims": ("n",), "dtype": "int32", "init": "integers:0:n-1"},
    "flag": ("n", "bool"),
}
OUTPUTS = {"y": ("n", "d", "float"), "n_max": ("int64",)}
SHAPES = {"small": {"n": 4, "d": 2}}
TOLERANCE = {"rtol": 0.5, "y": {"atol": 0.25}}
WORK = {"flops": "3*n*d", "bytes": "n*d*itemsize"}
NAME = "gather"

def reference(x, ids, flag, *, d):
    assert ids.dtype == np.int64 and flag.dtype == bool and x.dtype.kind == "f"
    return {"y": x[ids, :d] * flag[:, None], "n_max": ids.max()}

def gather(x, ids, flag, *, d):
    y = (x[ids, :d] * flag[:, None]).astype(np.float32)
    return y, np.array([ids.max()], np.int64)
"""


@pytest.mark.long
def test_types_fillings_outputs_tolerance_and_work_are_those_of_the_file(tmp_path):
    path = write(tmp_path, FULL, "full.py")
    (case,) = graphs_of_file(str(path))
    types = [(t.name, t.dims, t.data_type) for t in case.graph.tensors]
    assert [
        ("x", (4, 4), "half"),
        ("ids", (4,), "int32"),
        ("flag", (4,), "boolean"),
        ("y", (4, 2), "float"),
        ("n_max", (1,), "int64"),
    ] == types
    assert {"ids": "integers:0:3"} == case.graph.nodes[0].custom.init
    assert (24, 32) == (flops(case.graph), moved_bytes(case.graph))
    found = run(path, engine=["numpy", f"kernel@{path}"]).cases
    assert ["passed", "passed"] == [case.validation.status for case in found]
    assert {"y": (0.5, 0.25), "n_max": (0.5, 0.0)} == {
        o.name: (o.rtol, o.atol) for o in found[1].validation.outputs
    }


@pytest.mark.long
def test_the_fingerprint_follows_what_defines_the_operator_and_nothing_else(tmp_path):
    def key(text):
        return fingerprint(graphs_of_file(str(write(tmp_path, text)))[0].graph)

    base = key(SCALE)
    assert base == key(SCALE.replace("x * w * 1.01", "x * w * 1.02  # a kernel"))
    assert base != key(SCALE.replace("    return x * w\n", "    return x * w + 0\n", 1))
    helped = (
        SCALE.replace("return x * w\n", "return f(x) * w\n", 1) + "def f(x): return x * FACTOR\n"
    )
    assert key(helped.replace("FACTOR", "1")) != key(helped.replace("FACTOR", "2"))


@pytest.mark.long
def test_a_case_can_stand_in_a_suite_be_sharded_resumed_and_run_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, SCALE)
    Path("s.toml").write_text('[[graph]]\nfile = "scale.py"\nrepeat = 3\n')
    document = run("s.toml", engine=["numpy"], output="a.json")
    assert 4 == len(document.cases)
    assert 2 == len(run("case@scale.py", engine=["numpy"], shard="1/2").cases)
    again = run("case@scale.py", engine=["numpy"], output="b.json")
    resumed = run("case@scale.py", engine=["numpy"], output="b.json", resume=True)
    assert [c.graph.fingerprint for c in again.cases] == [
        c.graph.fingerprint for c in resumed.cases
    ]
    assert json.loads(Path("b.json").read_text())["cases"][0]["graph"]["path"] == (
        "case@scale.py#scale_rows4_cols8_float"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", r"no function reference\(\.\.\.\).*--engine kernel@scale.py"),
        ("def reference(x): return x", r"no INPUTS, such as"),
        ("INPUTS = {'x': ('n',)}\ndef reference(x): return x", r"INPUTS\['x'\]: .*'n'.*SHAPES is"),
        ("INPUTS = {'x': (4, 'flaot')}\ndef reference(x): return x", r"INPUTS\['x'\]: "),
        ("INPUTS = {'x': (0,)}\ndef reference(x): return x", r"dims \[0\], expected 1 or more"),
        ("INPUTS = {'x': (4,)}\ndef reference(z): return z", r"reference takes z; INPUTS has x"),
        ("INPUTS = {'x': (4,)}\ndef reference(x):\n    return x[9]", r"scale.py:3: IndexError"),
        ("INPUTS = {'x': (4,)}\nDTYPES = ['fp17']\ndef reference(x): return x", r"'fp17'"),
        (
            "INPUTS = {'x': (4,)}\nTOLERANCE = {'tol': 1}\ndef reference(x): return x",
            r"TOLERANCE: unknown 'tol'; known are rtol",
        ),
        *(
            (f"INPUTS = {{'x': (4,)}}\nTOLERANCE = {limits}\ndef reference(x): return x", message)
            for limits, message in (
                ("{'rtol': 'abc'}", r"TOLERANCE: rtol: expected a number, got 'abc'"),
                ("{'matched': 2}", r"TOLERANCE: matched: expected a number above 0, at most 1"),
                ("{'y': 3}", r"TOLERANCE: y: expected a dict of rtol, atol, .*, got 3"),
                ("{'half': {'atol': -1}, 'rtol': -1}", r"TOLERANCE: rtol: expected a finite"),
            )
        ),
        ("INPUTS = {'x': (4,)}\nWORK = {'flop': 1}\ndef reference(x): return x", r"WORK: unknown"),
        (
            "INPUTS = {'x': (4,)}\nSHAPES = [4]\ndef reference(x): return x",
            r"SHAPES: expected dicts",
        ),
        (
            "INPUTS = {'x': (4,)}\nOUTPUTS = (4,)\ndef reference(x): return x",
            r"OUTPUTS: expected nam",
        ),
        ("INPUTS = {'x': (4,)}\nOUTPUTS = {'x': 4}\ndef reference(x): return x", r"names of their"),
        ("INPUTS = {'x': 4.5}\ndef reference(x): return x", r"TypeError: 'float' object"),
        ("import os\nos._exit(7)", r"its process ended with code 7"),
        ("import nowhere", r"scale.py:1: ModuleNotFoundError"),
        ("raise SystemExit", r"scale.py:1: it called sys.exit"),
    ],
)
def test_what_a_file_gets_wrong_is_one_line_that_names_it(tmp_path, text, message):
    with pytest.raises(GraphError, match=message) as error:
        graphs_of_file(str(write(tmp_path, text)))
    assert "\n" not in str(error.value)


@pytest.mark.long
def test_a_file_that_hangs_ends_after_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("bench_run.user.cases.DESCRIBE_S", 1.0)
    with pytest.raises(GraphError, match="took more than 1 s to load"):
        graphs_of_file(str(write(tmp_path, "import time\ntime.sleep(60)")))


@pytest.mark.long
def test_inputs_are_never_so_kind_that_a_constant_would_pass(tmp_path):
    text = SCALE + "\ndef zeros(x, w): return np.zeros_like(x)\n"
    path = write(tmp_path, text)
    (case,) = run(f"{path}#scale_rows4_cols8_half", engine=[f"kernel:zeros@{path}"]).cases
    assert "failed" == case.validation.status


def test_a_graph_file_never_leads_to_a_file_of_code(tmp_path):
    graph = graphs_of_file(str(write(tmp_path, SCALE)))[0].graph
    from bench_run.graph.format.hipdnn_json import read_graph_object, write_graph

    read = read_graph_object(json.loads(write_graph(graph)), "g.json")
    assert read.nodes[0].custom is None
    assert np.all([t.name for t in read.tensors])


OPERATORS = {
    "softmax": "rows=8 cols=40",
    "rope": "batch=2 tokens=16 heads=2 size=8",
    "topk": "rows=4 cols=64 k=3",
    "quantize_int8": "rows=8 cols=32",
    "grouped_gemm": "groups=3 rows=4 k=16 n=8",
}
FOLDER = Path(__file__).resolve().parents[3] / "graphs" / "operators"


def test_every_operator_that_comes_along_is_listed():
    assert sorted(OPERATORS) == sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.long
@pytest.mark.parametrize(
    "engine", ["numpy", pytest.param("torch:cpu", marks=pytest.mark.needs("torch:cpu"))]
)
def test_operators_that_come_along_are_right(engine):
    types = "dtype=float,half,bfloat16"
    graphs = [f"case@{FOLDER / name}.py: {items} {types}" for name, items in OPERATORS.items()]
    cases = run(*graphs, engine=[engine]).cases
    assert 3 * len(OPERATORS) == len(cases)
    assert {"passed"} == {case.validation.status for case in cases}


@pytest.mark.long
def test_a_saved_suite_names_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, SCALE)
    (tmp_path / "suites").mkdir()
    run("scale.py", engine=["numpy"], save_suite="suites/s.toml")
    assert 'file = "../scale.py#scale_rows4_cols8_float"' in Path("suites/s.toml").read_text()
    assert 4 == len(run("suites/s.toml", engine=["numpy"]).cases)


@pytest.mark.parametrize("flag", ["golden", "write_golden"])
def test_golden_tensors_are_refused_since_the_file_has_the_reference(tmp_path, flag):
    path = write(tmp_path, SCALE)
    with pytest.raises(UsageError, match="has its reference in its file"):
        run(path, engine=["numpy"], **{flag: str(tmp_path / "golden")})


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float", "half", "bfloat16"])
def test_a_share_of_one_percent_is_found_in_every_type(tmp_path, dtype):
    text = (FOLDER / "softmax.py").read_text()
    for name, factor in (("right", 1), ("wrong", 1.01)):
        text += f"\ndef {name}(x):\n    y = reference(x.astype(np.float32)) * {factor}\n"
        text += "    return y.astype(x.dtype)\n"
    path = write(tmp_path, text, "softmax.py")
    engines = [f"kernel:right@{path}", f"kernel:wrong@{path}"]
    cases = run(f"{path}: rows=64 cols=100 dtype={dtype}", engine=engines).cases
    assert ["passed", "failed"] == [case.validation.status for case in cases]


def test_one_shape_and_one_type_need_no_list(tmp_path):
    text = SCALE.replace(
        '[{"rows": 4, "cols": 8}, {"rows": 2, "cols": 16}]', '{"rows": 4, "cols": 8}'
    )
    text = text.replace('["float", "half"]', '"half"')
    (case,) = graphs_of_file(str(write(tmp_path, text)))
    assert ("half", (4, 8)) == (case.graph.tensors[0].data_type, case.graph.tensors[0].dims)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float", "half"])
def test_a_reference_that_jumps_allows_no_element_to_be_wrong_by_a_step(tmp_path, dtype):
    text = """
    import numpy as np

    INPUTS = {"x": ("n",)}
    SHAPES = {"n": 4096}

    def reference(x):
        return np.rint(x * 30)

    def right(x):
        return np.rint(x * 30).astype(x.dtype)

    def wrong(x):
        y = right(x)
        y[::20] += 1
        return y
    """
    path = write(tmp_path, text, "jumps.py")
    engines = [f"kernel:{name}@{path}" for name in ("right", "wrong")]
    right, wrong = run(f"{path}: dtype={dtype}", engine=engines).cases
    assert "failed" == wrong.validation.status
    if dtype == "float":  # in half the file has to say what a step may do
        assert "passed" == right.validation.status
