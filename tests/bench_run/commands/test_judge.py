"""A judge: correct, honest, faster; one line, one exit code."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from bench_schema.document import Validation

from bench_run.cli import main
from bench_run.commands.judge import TOOL, USAGE
from bench_run.judge.verdict import CODES, judged_case, verdict_of
from tests.bench_compare.build import case

KERNELS = {
    "same": ("return np.maximum(x, 0)", ("faster", "same", "slower", "undecided"), True, True),
    "slow": ("return [np.maximum(x, 0) for _ in range(9)][0]", ("slower",), True, True),
    "wrong": ("return np.abs(x)", ("wrong",), False, True),
    "crash": ("raise ValueError('no')", ("failed",), False, True),
    "edge": ("y = np.maximum(x, 0); y[x > 50] = 50; return y", ("wrong",), False, True),
    "input": ("x *= -1; return np.maximum(-x, 0)", ("wrong", "dishonest"), None, None),
}


@pytest.mark.long
@pytest.mark.parametrize("name", KERNELS)
def test_the_verdict_and_the_exit_code_of_a_kernel(name, tmp_path, capsys):
    body, verdicts, correct, honest = KERNELS[name]
    path = tmp_path / f"{name}.py"
    path.write_text(f"import numpy as np\n\n\ndef relu(x):\n    {body}\n")
    words = ["--op", "relu: dims=64x64", "--base", "numpy", "--max-rounds", "5", "--json"]
    words += ["--allow-library", "--budget", "8"]
    code = main(["judge", str(path), *words])
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] in verdicts, found
    assert code == CODES[found["verdict"]]
    assert correct in (None, found["correct"])
    assert honest in (None, found["honest"])
    assert found["sentence"].startswith(found["verdict"].upper())
    (case,) = found["cases"]
    assert case["verdict"] == found["verdict"]
    assert case["reason"]
    assert found["next"][0].startswith("bench-run ")
    if found["correct"]:
        assert case["where_the_time_goes"]["outside_ns"] > 0


@pytest.mark.long
def test_an_operator_of_ones_own_is_judged_with_its_own_reference(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "kernel"]) == 0
    words = ["--base", "numpy", "--max-rounds", "5", "-o", "kept.json", "--budget", "8"]
    code = main(["judge", "my_case.py", *words])
    line = capsys.readouterr().out.splitlines()[-1]
    assert code in (0, 1, 2)
    assert "correct and honest in 1 case" in line
    assert Path("kept.json").stat().st_size


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "which kernel?"),
        (["k.py"], "on which operation?"),
        (["k.py", "--op", "relu", "--threshold", "much"], "--threshold"),
        (["k.py", "--op", "relu", "--max-rounds", "x"], "--max-rounds: a number is expected"),
        (["calls.py", "--op", "rellu: dims=4x4"], "did you mean relu"),
        (["k.py", "--op", "relu", "--budget", "soon"], "--budget: seconds are expected, as in"),
        (["empty", "--base", "numpy"], "empty has no problems: a folder for each, with case.py"),
        (["half", "--base", "numpy"], "half/one has no kernel: write half/one/kernel.py"),
        (["half", "--op", "relu"], "--op: each problem of half has its own case.py"),
        (["k.py", "--op", "relu: dims=8x8", "--base", "kernel@other.py"], "--base torch, or"),
        (["nothere.py", "--op", "relu: dims=4x4"], "nothere.py"),
    ],
)
def test_a_wrong_word_says_what_to_type(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text("def relu(x): return x * (x > 0)\n")
    Path("calls.py").write_text("import numpy\ndef relu(x): return numpy.maximum(x, 0)\n")
    Path("empty").mkdir()
    Path("half/one").mkdir(parents=True)
    Path("half/one/case.py").write_text("")
    Path("other.py").write_text("def relu(x): raise NotImplementedError('not today')\n")
    assert main(["judge", *words]) == 1
    assert said in capsys.readouterr().err


def test_the_tool_is_described_as_the_guide_shows_it(capsys):
    assert main(["judge", "--tool"]) == 0
    told = json.loads(capsys.readouterr().out)
    guide = (Path(__file__).parents[3] / "bench_run/docs/judge.md").read_text()
    shown = json.loads(guide.partition("```json\n")[2].partition("```")[0])
    assert told == TOOL == shown


def test_every_parameter_of_the_tool_is_a_word_of_the_command():
    for name in TOOL["parameters"]["properties"]:
        assert (name.upper() if name == "kernel" else f"--{name}") in USAGE


CALLS = {
    "return np.maximum(x, 0)": "it only calls numpy.maximum",
    "y = np.maximum(x, 0)\n    return y": "it only calls numpy.maximum",
    "return x.clip(0)": "it only calls the method clip",
    "'A kernel.'\n    return np.where(x > 0, x, 0)": None,
    "return x * (x > 0)": None,
    "y = np.maximum(x, 0)\n    y[x > 50] = 50\n    return y": None,
}


@pytest.mark.parametrize("body", CALLS)
def test_a_kernel_that_only_calls_a_library_is_named_so_and_not_run(body, tmp_path, capsys):
    path = tmp_path / "my.py"
    path.write_text(f"import numpy as np\n\n\ndef relu(x):\n    {body}\n")
    words = ["judge", str(path), "--op", "relu: dims=8x8", "--base", "nothing", "--json"]
    code = main(words)
    if CALLS[body] is None:
        assert 1 == code  # there is no such base: it would have run
        return
    found = json.loads(capsys.readouterr().out)
    assert (2, "library") == (code, found["verdict"])
    assert CALLS[body] in found["sentence"]
    assert "--allow-library" in found["next"][0]


SUSPICIOUS = {
    "import threading": "threads",
    "import socket": "network",
    "import ctypes": "memory",
    "import sys\nF = sys._getframe()": "stack",
    "from bench_run.measure import loop": "tool",
    "import time\nT = time.perf_counter": "clock",
    "np.maximum = abs": "replaces",
    "exec('')": "hidden",
    "import functools\n@functools.cache\ndef f(x): return x": "keeps",
    "K = {}\ndef g(x): K[0] = x": "keeps",
    "def h(x, z): return x": "unused",
    "try:\n    pass\nexcept OSError:\n    pass": "falls back",
    "import torch\ndef s(): torch.cuda.Stream()": "streams",
    "D = open('/dev/null')": "files",
}


@pytest.mark.parametrize("text", SUSPICIOUS)
def test_what_a_kernel_does_not_need_is_told_with_its_line(text, tmp_path, capsys):
    path = tmp_path / "my.py"
    path.write_text(f"import numpy as np\ndef relu(x): return np.maximum(x, 0)\n{text}\n")
    main(["judge", str(path), "--op", "relu: dims=8x8", "--base", "numpy", "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    rules = {each["rule"]: each["line"] for each in findings}
    assert rules.pop("library") == 2
    assert SUSPICIOUS[text] in rules
    assert 3 <= rules[SUSPICIOUS[text]] <= 2 + len(text.splitlines())


@pytest.mark.long
@pytest.mark.parametrize("body", ["return np.sin(x) * 1", "return np.minimum(x * (x > 0), 50)"])
def test_the_first_inputs_on_which_a_kernel_is_wrong_are_files_that_a_run_takes(
    body, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(f"import numpy as np\ndef relu(x):\n    {body}\n")
    words = ["judge", "k.py", "--op", "relu: dims=32x32", "--base", "numpy", "--reproduce", "bad"]
    assert main([*words, "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    command = shlex.split(found["reproducer"])
    assert command == shlex.split(found["next"][0])
    assert "wrong" == found["verdict"]
    assert 2 == main([*command[1:], "--rounds", "1", "--iters", "5"])


@pytest.mark.long
def test_a_file_that_holds_a_run_is_not_replaced_and_a_wrong_kernel_keeps_its_run(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text("def relu(x): return -x\n")
    words = ["judge", "k.py", "--op", "relu: dims=8x8", "--base", "numpy", "-o", "run.json"]
    assert main(words) == 2
    kept = Path("run.json").read_bytes()
    capsys.readouterr()
    assert main(words) == 1
    assert "--force" in capsys.readouterr().err
    assert Path("run.json").read_bytes() == kept
    assert main([*words, "--force"]) == 2


def test_outputs_that_nothing_checks_are_not_called_wrong():
    made = case("g", [[1000] * 5] * 3, validation=Validation("not checked", "none", "no formula"))
    found = judged_case(made, None)
    assert (found["verdict"], found["correct"]) == ("undecided", False)
    assert "no formula" in found["reason"]


@pytest.mark.parametrize(
    ("cases", "verdict"),
    [
        (["faster", "slower"], "slower"),
        (["faster", "undecided"], "undecided"),
        (["faster", "same"], "faster"),
        (["same", "same"], "same"),
        (["slower", "wrong"], "wrong"),
        ([], "failed"),
    ],
)
def test_the_worst_case_is_the_verdict(cases, verdict):
    assert verdict_of(cases) == verdict
