"""Functions of a user's file: which one runs a graph, how it is called, what it may get wrong."""

from __future__ import annotations

import os
import py_compile
import re
import subprocess
import sys
import textwrap
from contextlib import closing

import numpy as np
import pytest

import bench_run
from bench_compare.cli import main
from bench_run.engines import engine_module
from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import parse_spec
from bench_run.errors import (
    EngineError,
    EngineUnavailableError,
    UnsupportedGraphError,
    UsageError,
)
from bench_run.graph.make import make_graphs
from bench_run.user.kernels import KernelFile, Problem, matches
from bench_run.user.source import load_source

MATMUL = "matmul: m=4 n=4 k=4"
SDPA = "sdpa: b=1 h=1 s=4 d=4 mask=causal"


def write(folder, text, name="my.py"):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def graph_of(spec):
    (graph,) = make_graphs(spec, "small", None, [])
    return graph


def chosen(folder, text, spec, **knobs):
    """The kernel of a file that runs a graph."""
    file = KernelFile(load_source(str(write(folder, text))))
    return file.choose(graph_of(spec), knobs, None)


def call(folder, text, spec, inputs, **knobs):
    """What a kernel returns or writes for some inputs."""
    graph = graph_of(spec)
    kernel = chosen(folder, text, spec, **knobs)
    prepared = kernel.prepare(Problem(graph, kernel.typed(graph, knobs), "cpu", None, np.empty))
    outputs = [np.zeros(t.dims, np.float32) for t in graph.outputs]
    return prepared(inputs, outputs)


def run(path, *specs, op=MATMUL, **options):
    return bench_run.run(
        [],
        op=[op],
        engine=[s.format(path) for s in specs],
        **{"rounds": 1, "iterations": 3, "warmup": 1, **options},
    )


# Which function, and with which arguments.


def test_the_simplest_file_is_right_and_timed(tmp_path):
    path = write(tmp_path, "import numpy\ndef matmul(a, b):\n    return a @ b\n")
    (case,) = run(path, "kernel@{}").cases
    assert ("completed", "passed") == (case.outcome.status, case.validation.status)
    assert 3 == len(case.rounds[0].series["e2e_ns"])


A, B = np.arange(16.0, dtype=np.float32).reshape(4, 4), np.eye(4, dtype=np.float32)


@pytest.mark.parametrize(
    "text",
    [
        "def matmul(a, b): return a @ b",
        "def matmul(b, a): return a @ b",
        "def anything(a, b): return a @ b",
        "def matmul(left, right): return left @ right",
        "def f(a, b, c): c[...] = a @ b",
        "def f(a, b): return {'c': a @ b}",
        "def f(a, b): return (a @ b,)",
        "def f(*, a, b): return a @ b",
        "def f(a, b, extra=1): return a @ b",
        "def helper(x): return x\ndef matmul(a, b): return helper(a) @ b",
        "from math import gcd\ndef f(a, b): return a @ b",
        "matmul = lambda a, b: a @ b",
    ],
)
def test_parameters_are_matched_by_name_or_in_the_order_of_a_function_of_the_operations_name(
    tmp_path, text
):
    (result,) = call(tmp_path, text, MATMUL, [A, B])
    assert np.array_equal(A @ B, result)


def test_keyword_only_parameters_take_attributes_constants_and_knobs(tmp_path):
    text = """
    def sdpa(q, k, v, *, causal, alibi_mask=None, BLOCK=64, SCALE=1.5):
        pass
    """
    kernel = chosen(tmp_path, text, SDPA, BLOCK="128")
    graph = graph_of(SDPA)
    bound = kernel.prepare(Problem(graph, kernel.typed(graph, {"BLOCK": "128"}), "cpu")).bound
    wanted = {"causal": True, "alibi_mask": False, "BLOCK": 128, "SCALE": 1.5}
    assert wanted == bound.values
    layernorm = "def f(x, scale, bias, *, epsilon): return x + epsilon"
    kernel = chosen(tmp_path / "other", layernorm, "layernorm: n=2 h=4")
    assert {"epsilon"} == set(
        kernel.prepare(Problem(graph_of("layernorm: n=2 h=4"), {}, "")).bound.values
    )


def test_a_decorated_function_with_one_parameter_p_prepares_once(tmp_path):
    text = """
    from bench_run import kernel
    log = []
    @kernel("matmul", knobs={"BLOCK": (16, 32)}, dtypes=("float",),
            where=lambda p: p["a"].dims[0] == 4)
    def product(p):
        scratch = p.workspace(p["a"].nbytes)
        log.append(p.knobs["BLOCK"])
        def run(a, b, c):
            scratch[:] = 1
            c[...] = a @ b
        return run
    def never(a, b): return a
    """
    results = call(tmp_path, text, MATMUL, [A, B], BLOCK="32")
    assert np.array_equal(A @ B, results[0])
    assert [32] == load_source(str(tmp_path / "my.py")).module.log


@pytest.mark.parametrize(
    ("pattern", "op", "fits"),
    [
        ("MatmulAttributes", MATMUL, True),
        ("Matmul", MATMUL, True),
        ("matmul", MATMUL, True),
        ("Pointwise(RELU_FWD)", "relu: dims=4", True),
        ("relu", "relu: dims=4", True),
        ("Pointwise(TANH_FWD)", "relu: dims=4", False),
        ("Matmul+Pointwise(RELU_FWD)", MATMUL, False),
    ],
)
def test_a_pattern_names_a_node_type_an_operation_or_a_chain(pattern, op, fits):
    assert fits == matches(pattern, graph_of(op))


@pytest.mark.long
def test_functions_that_fit_are_a_case_each_and_a_name_chooses_one(tmp_path):
    path = write(tmp_path, "import numpy\ndef f(a, b): return a @ b\ndef g(a, b): return a @ b\n")
    both = run(path, "kernel@{}").cases
    assert [{"kernel": "f"}, {"kernel": "g"}] == [case.variant for case in both]
    (one,) = run(path, "kernel:g@{}").cases
    assert {} == one.variant


def test_knobs_of_a_file_are_listed_with_their_values(tmp_path):
    path = write(tmp_path, "import numpy\ndef f(a, b, *, N=4): return a @ b\n")
    spec = parse_spec(f"kernel@{path}")
    graph = graph_of(MATMUL)
    with closing(engine_module("kernel").open(spec, EngineOptions())) as engine:
        assert {"N": ("4",)} == engine.abilities.knob_values(graph, {})
        assert [{"plan": "N=4"}] == engine.abilities.plans(graph)


# What a file may get wrong: one line that names file and line, and the other cases go on.


BAD = """
import os, sys
import numpy as np

def shape(a, b):
    return (a @ b)[:2]

def kind(a, b):
    return (a @ b).astype(np.float64)

def nothing(a, b):
    a @ b

def thing(a, b):
    return object()

def two(a, b):
    return a, b

def divides(a, b):
    return a / (1 // 0)

def leaves(a, b):
    sys.exit(3)

def later(a, b):
    raise NotImplementedError("only for half")

def other(x, y, z):
    return x

def loud(a, b):
    print("noise")
    np.seterr(all="raise")
    os.chdir("/")
    return a @ b
"""
EXPECTED = {
    "shape": ("failed", r"my.py:5: shape returned c \[2, 4\] float32; expected \[4, 4\] float32"),
    "kind": ("failed", r"my.py:8: kind returned c \[4, 4\] float64; expected \[4, 4\] float32"),
    "nothing": ("failed", r"my.py:11: nothing returned nothing; expected c"),
    "thing": ("failed", r"my.py:14: thing returned a object; expected c"),
    "two": ("failed", r"my.py:17: two returned 2 values; expected c"),
    "divides": ("failed", r"my.py:21: ZeroDivisionError: "),
    "leaves": ("failed", r"my.py:24: it called sys.exit\(3\)"),
    "later": ("unsupported", r"my.py:27: only for half"),
    "other": ("unsupported", r"my.py: other\(x, y, z\): the graph has no x; the graph is matmul"),
    "loud": ("completed", None),
}


@pytest.mark.long
def test_what_a_function_gets_wrong_costs_its_case_and_names_file_and_line(tmp_path):
    path = write(tmp_path, BAD)
    document = run(path, *(f"kernel:{name}@{{}}" for name in EXPECTED))
    for case, (name, (status, reason)) in zip(document.cases, EXPECTED.items(), strict=True):
        assert status == case.outcome.status, (name, case.outcome.reason)
        if reason is not None:
            assert re.match(reason, case.outcome.reason), case.outcome.reason
            assert "\n" not in case.outcome.reason


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nowhere", r"my.py:1: ModuleNotFoundError: No module named 'nowhere'"),
        ("def f(:", r"my.py:1: SyntaxError"),
        ("x = 1\nraise SystemExit('no GPU')", r"my.py:2: it called sys.exit\(no GPU\)"),
        ("x = 1", r"my.py: it defines no function"),
        ("FRAMEWORK = 'tf'\ndef f(a): pass", r"my.py: FRAMEWORK is 'tf'; choose from torch"),
        ("from bench_run import kernel\n@kernel(framework='tf')\ndef f(a): pass", r"no framework"),
    ],
)
def test_a_file_that_does_not_load_is_refused_with_file_and_line(tmp_path, text, message):
    path = write(tmp_path, text)
    before = os.getcwd()
    with pytest.raises((EngineUnavailableError, EngineError), match=message):
        engine_module("kernel").open(parse_spec(f"kernel@{path}"), EngineOptions())
    assert before == os.getcwd()


def test_a_name_that_the_file_lacks_is_answered_with_the_nearest(tmp_path):
    path = write(tmp_path, "def matmul(a, b): return a @ b")
    with pytest.raises(EngineError, match=r"no function 'matmull'; did you mean matmul"):
        KernelFile(load_source(str(path)), "matmull")


def test_an_unknown_knob_is_answered_with_those_of_the_function(tmp_path):
    with pytest.raises(UnsupportedGraphError, match=r"f has no knob 'M'; known are N"):
        chosen(tmp_path, "def f(a, b, *, N=4): return a @ b", MATMUL, M="1")


def test_signatures_of_both_sides_are_shown_where_nothing_fits(tmp_path):
    with pytest.raises(UnsupportedGraphError, match=r"f\(a, z\): .* matmul\(a \[4, 4\] float, b"):
        chosen(tmp_path, "def f(a, z): return a", MATMUL)


def test_the_document_names_the_file_what_it_imports_and_the_commit(tmp_path):
    write(tmp_path, "FACTOR = 1\n", "helper_of_mine.py")
    path = write(tmp_path, "import numpy\nimport helper_of_mine\ndef f(a, b): return a @ b\n")
    (engine,) = run(path, "kernel@{}").engines
    assert str(path) == engine.plugin_path
    assert 64 == len(engine.plugin_sha256)
    assert 12 == len(engine.libraries["helper_of_mine.py"])
    assert "numpy" == engine.knobs["framework"]


@pytest.mark.long
def test_a_comparison_shows_that_the_file_changed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in (("a.json", "a @ b"), ("b.json", "b.T.dot(a.T).T.copy()")):
        write(tmp_path, f"import numpy\ndef matmul(a, b): return {text}\n")
        run(tmp_path / "my.py", "kernel@my.py", output=name)
    main(["a.json", "b.json"])
    shown = capsys.readouterr().out
    assert "plugin sha256" in shown, shown


@pytest.mark.long
def test_a_function_that_hangs_costs_its_case(tmp_path):
    path = write(tmp_path, "import numpy\ndef f(a, b):\n    while True: pass\n")
    (case,) = run(path, "kernel@{}", timeout_s=2.0).cases
    assert "timed out" == case.outcome.status


TORCH = """
import torch

def matmul(a, b):
    return a @ b

def strided(a, b):
    return (b.T @ a.T).T

def into(a, b, c):
    torch.matmul(a, b, out=c)

def wide(a, b):
    return (a @ b).double()

class Lazy(torch.Tensor):
    pass

def lazy(a, b):
    return (a @ b).as_subclass(Lazy)
"""


@pytest.mark.needs("torch:cpu")
def test_functions_of_pytorch_return_tensors_or_write_to_the_outputs(tmp_path):
    path = write(tmp_path, TORCH)
    names = ("matmul", "strided", "into", "wide", "lazy")
    cases = run(path, *(f"kernel:{name}@{{}}" for name in names)).cases
    found = {n: (c.outcome.status, c.outcome.reason) for n, c in zip(names, cases, strict=True)}
    for name in ("matmul", "strided", "into"):
        assert ("completed", None) == found[name]
    assert ["passed"] * 3 == [case.validation.status for case in cases[:3]]
    assert "c" == cases[1].plan["copied outputs"]
    assert "wide returned c [4, 4] torch.float64; expected [4, 4] torch.float32" in found["wide"][1]
    assert "lazy returned a Lazy; expected c" in found["lazy"][1]


def test_a_function_with_the_name_of_another_operation_does_not_run(tmp_path):
    text = "def relu(x): return x\ndef helper(x): return x\n"
    assert "helper" == chosen(tmp_path, text, "exp: dims=4").name
    with pytest.raises(UnsupportedGraphError, match="no function for it, only relu; the graph is"):
        chosen(tmp_path / "other", "def relu(x): return x\n", "exp: dims=4")


def test_a_save_within_the_second_is_not_hidden_by_bytecode(tmp_path):
    path = write(tmp_path, "def f(a, b): return 1\n")
    py_compile.compile(str(path))
    stamp = path.stat()
    path.write_text("def f(a, b): return 2\n")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert 2 == load_source(str(path)).module.f(0, 0)


def test_a_file_is_loaded_once_however_it_is_named(tmp_path, monkeypatch):
    path = write(tmp_path, "def f(a, b): return 1\n")
    monkeypatch.chdir(tmp_path)
    assert load_source("my.py") is load_source(str(path))


def test_a_plan_that_the_file_no_longer_has_is_unsupported(tmp_path):
    path = write(tmp_path, "import numpy\ndef f(a, b, *, N=4): return a @ b\n")
    opened = engine_module("kernel").open(parse_spec(f"kernel@{path}"), EngineOptions())
    with (
        closing(opened) as engine,
        pytest.raises(UnsupportedGraphError, match=r"my.py: no plan 'N=5'; did you mean N=4"),
    ):
        engine.build(graph_of(MATMUL), {"plan": "N=5"})


@pytest.mark.needs("torch:cpu")
def test_a_file_that_is_refused_leaves_pytorch_as_it_was(tmp_path):
    torch = pytest.importorskip("torch")
    path = write(tmp_path, "import torch\nx = 1\n")
    with pytest.raises(EngineUnavailableError, match="defines no function"):
        engine_module("kernel").open(parse_spec(f"kernel@{path}"), EngineOptions())
    assert not torch.is_inference_mode_enabled()


def test_knobs_may_follow_the_file_and_choose_among_its_functions(tmp_path):
    text = "import numpy\ndef f(a, b): return a @ b\ndef g(a, b, *, N=4): return a @ b\n"
    (case,) = run(write(tmp_path, text), "kernel@{}+knob:N=8").cases
    assert ("passed", "g", "8") == (case.validation.status, case.plan["kernel"], case.plan["N"])
    with pytest.raises(UsageError, match=r"a file of kernels is kernel@my.py"):
        parse_spec("my.py")


def test_installed_packages_below_the_folder_are_not_files_of_the_project(tmp_path, monkeypatch):
    """A file in a home folder that holds Python itself, and a checkout that is on the path."""
    for folder in ("python/lib", "checkout"):
        (tmp_path / folder).mkdir(parents=True)
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "python"))
    write(tmp_path / "python" / "lib", "def fail(): raise KeyError('deep')\n", "of_python.py")
    write(tmp_path / "checkout", "X = 1\n", "of_checkout.py")
    write(tmp_path, "X = 1\n", "of_project.py")
    text = "import of_python, of_checkout, of_project\n\n\nof_python.fail()\n"
    with pytest.raises(EngineError, match=r"my.py:4: KeyError"):
        load_source(str(write(tmp_path, text)))
    good = write(tmp_path, text.replace("of_python.fail()", ""), "good.py")
    assert {"of_project.py"} == load_source(str(good)).files.keys()


def test_the_commit_says_whether_the_file_differs_from_it(tmp_path):
    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    for name in ("one.py", "two.py"):
        write(tmp_path, "def f(a): return a\n", name)
    git("add", "one.py")
    git("commit", "-qm", "one")
    (tmp_path / "one.txt").write_text("another file of the repository")
    one, two = (load_source(str(tmp_path / name)).commit for name in ("one.py", "two.py"))
    assert (f"{one} + changes", 12) == (two, len(one))


@pytest.mark.long
@pytest.mark.parametrize("name", ["my.py", "helper_that_changes.py"])
def test_a_file_that_changes_during_a_run_costs_its_case(tmp_path, name):
    """Each import changes one of the files, as a save between two rounds does."""
    write(tmp_path, "", "helper_that_changes.py")
    text = "import numpy, os, helper_that_changes\nfolder = os.path.dirname(__file__)\n"
    text += f"open(os.path.join(folder, {name!r}), 'a').write('#')\n"
    path = write(tmp_path, f"{text}def f(a, b): return a @ b\n")
    (case,) = run(path, "kernel@{}", rounds=2).cases
    assert "failed" == case.outcome.status
    assert "changed during the run" in case.outcome.reason
