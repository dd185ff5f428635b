"""A folder of problems: a line each, one document, a summary."""

from __future__ import annotations

import json

import pytest

from bench_run.cli import main

ROWS = '{"x": ("rows", "cols")}'
SQUARE = '{"a": ("n", "n"), "b": ("n", "n")}'
ATTENTION = '{"q": ("s", "d"), "k": ("s", "d"), "v": ("s", "d")}'
PROBLEMS = {
    "gate": (ROWS, "x / (1 + np.exp(-x))", "x / (1 + np.exp(-x))", "x / (1 + np.exp(x))"),
    "clip": (ROWS, "np.clip(x, 0, 6)", "np.minimum(np.maximum(x, 0), 6)", "np.maximum(x, 0) + 0"),
    "scale": (ROWS, "x * 3 + 1", "x * np.float32(3) + 1", "x * np.float32(3) - 1"),
    "product": (SQUARE, "a @ b", "(b.T @ a.T).T", "(a.T @ b) * 1"),
    "diagonal": (SQUARE, "a @ b + a", "np.matmul(a, b) + a", "np.matmul(a, b) + b"),
    "softmax": (
        ROWS,
        "np.exp(x - x.max(-1, keepdims=True))"
        " / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)",
        "(lambda e: e / e.sum(-1, keepdims=True))(np.exp(x - x.max(-1, keepdims=True)))",
        "(lambda e: e / e.sum())(np.exp(x - x.max(-1, keepdims=True)))",
    ),
    "norm": (
        ROWS,
        "x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-3)",
        "x * (1 / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-3)))",
        "x / np.sqrt((x * x).mean(-1, keepdims=True) + 1)",
    ),
    "centre": (
        ROWS,
        "x - x.mean(-1, keepdims=True)",
        "x + -x.mean(-1, keepdims=True)",
        "x - x.mean(keepdims=True)",
    ),
    "shift": (ROWS, "np.roll(x, 1, -1)", "np.roll(x, 1, -1) * 1", "np.roll(x, 2, -1) * 1"),
    "attention": (
        ATTENTION,
        "(lambda e: e / e.sum(-1, keepdims=True))(np.exp(q @ k.T / 4)) @ v",
        "(lambda e: e @ v / e.sum(-1, keepdims=True))(np.exp(q @ k.T / 4))",
        "(lambda e: e / e.sum(-1, keepdims=True))(np.exp(q @ k.T / 2)) @ v",
    ),
}
SHAPE = '[{"rows": 32, "cols": 64, "n": 48, "s": 32, "d": 16}]'


@pytest.fixture
def problems(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(*names, right=True):
        for name in names:
            inputs, reference, good, bad = PROBLEMS[name]
            folder = tmp_path / "set" / f"{name}_{'right' if right else 'wrong'}"
            folder.mkdir(parents=True)
            head = "import numpy as np\n"
            given = ", ".join(json.loads(inputs.replace("(", "[").replace(")", "]")))
            (folder / "case.py").write_text(
                f"{head}INPUTS = {inputs}\nSHAPES = {SHAPE}\n"
                f"def reference({given}):\n    return {reference}\n"
            )
            body = good if right else bad
            (folder / "kernel.py").write_text(f"{head}def kernel({given}):\n    return {body}\n")

    return write


@pytest.mark.long
@pytest.mark.parametrize("part", [0, 1])
def test_right_kernels_are_right_and_wrong_ones_are_wrong(part, problems, capsys):
    names = list(PROBLEMS)[part::2]
    problems(*names)
    problems(*names, right=False)
    assert 2 == main(["judge", "set", "--base", "numpy", "--budget", "1", "-o", "all.json"])
    *lines, last = capsys.readouterr().out.splitlines()
    assert 2 * len(names) == len(lines)
    for line in lines:
        assert ("WRONG" in line) == ("_wrong" in line), line
        assert ("correct and honest" in line) == ("_right" in line), line
    assert last.startswith(f"{2 * len(names)} kernels: {len(names)} correct, ")
    with open("all.json") as file:
        cases = json.load(file)["cases"]
    assert 4 * len(names) == len(cases)
    assert len({case["id"] for case in cases}) == len(cases)


@pytest.mark.long
def test_a_kernel_that_does_not_load_costs_its_line_only(problems, capsys):
    problems("scale")
    problems("gate")
    with open("set/gate_right/kernel.py", "a") as file:
        file.write("1 = 2\n")
    assert 2 == main(["judge", "set", "--base", "numpy", "--budget", "1", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert ["failed", True] == [found["problems"][0]["verdict"], found["problems"][1]["correct"]]
    assert (2, 1) == (found["summary"]["kernels"], found["summary"]["correct"])
