"""`bench-run init kernel`: each template is right under each line that it prints, and what is wrong
or fits no graph says so in the same place."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import signal
import subprocess
import sys

import pytest

from bench_run.commands.init import FRAMEWORKS

pytestmark = pytest.mark.long
NEEDS = {"torch": "torch", "jax": "jax"}
ON_A_GPU = ("triton", "cupy", "cuda")
"""`tests/gpu` runs these."""
SHORT = ("--rounds", "2", "--iters", "6")
PROMPT = "  bench-run "


def printed(run, framework):
    done = run("init", "kernel", framework)
    assert done.returncode == 0, done.stderr
    lines = [shlex.split(x)[1:] for x in done.stdout.splitlines() if x.startswith(PROMPT)]
    assert len(lines) == 3
    return lines


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name not in ON_A_GPU])
def test_an_untouched_template_is_right_under_each_line_that_it_prints(
    bench_run_command, tmp_path, framework
):
    needed = NEEDS.get(framework)
    if needed is not None and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    if framework == "cpp" and shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")
    for words in printed(bench_run_command, framework):
        if "--watch" in words:
            assert "passed" in watched([*words, *SHORT], tmp_path)
            continue
        done = bench_run_command(*words, *SHORT)
        assert (0, False) == (done.returncode, "FAILED" in done.stdout), done.stdout + done.stderr


def watched(words, folder):
    """The output of a watch that is ended after its first measurement."""
    command = [sys.executable, "-m", "bench_run", *words]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        seen = []
        for line in process.stdout:
            seen.append(line)
            if line.startswith("watching "):
                process.send_signal(signal.SIGINT)
        return "".join(seen)
    finally:
        process.kill()
        process.wait()


WRONG = "def relu(x): return x * 0 + 1\n"
PAIR = ("--a", "numpy", "--b", "kernel@my.py", "--reference", "numpy", *SHORT)


def test_the_speed_of_wrong_outputs_is_not_said(bench_run_command, tmp_path):
    (tmp_path / "my.py").write_text(WRONG)
    one = bench_run_command("--op", "relu: dims=8x8", *PAIR)
    assert (2, True) == (one.returncode, "none: outputs of B are wrong" in one.stdout)
    assert "faster" not in one.stdout
    assert "slower" not in one.stdout
    two = bench_run_command("--op", "relu: dims=8x8", "--op", "relu: dims=9x8", *PAIR)
    rows = [line.split() for line in two.stdout.splitlines() if line.startswith("relu_")][:2]
    assert [["wrong", "–"]] * 2 == [row[5:7] for row in rows], two.stdout


def test_a_side_that_fits_no_graph_is_exit_code_1_and_says_which_parameters_to_name(
    bench_run_command, tmp_path
):
    (tmp_path / "my.py").write_text("def matmul(p1, p2, p3, p4): return p1 @ p2\n")
    done = bench_run_command("--op", "matmul: m=4 n=4 k=4", *PAIR)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        "bench-run: kernel@my.py measured nothing: my.py: matmul(p1, p2, p3, p4)"
    )
    assert last.endswith(": name the parameters a, b, and c to write to its memory")


def test_a_template_of_attention_takes_the_scale_that_the_graph_leaves_out(
    bench_run_command, tmp_path
):
    kernel = (
        "import numpy as np\n"
        "def sdpa(q, k, v, *, attn_scale):\n"
        "    scores = q @ k.swapaxes(-1, -2) * attn_scale\n"
        "    share = np.exp(scores - scores.max(-1, keepdims=True))\n"
        "    return share / share.sum(-1, keepdims=True) @ v\n"
    )
    (tmp_path / "my.py").write_text(kernel)
    for scale in ("", " scale=0.5"):
        done = bench_run_command("--op", f"sdpa: b=1 h=2 s=16 d=9{scale}", *PAIR)
        assert done.returncode == 0, done.stdout + done.stderr


def test_iterations_are_as_many_as_asked_for_or_the_limit_is_named(bench_run_command, tmp_path):
    (tmp_path / "my.py").write_text("import numpy\ndef relu(x): return numpy.maximum(x, 0)\n")
    pair = ("--a", "numpy", "--b", "kernel@my.py")
    done = bench_run_command("--op", "relu: dims=8x8", *pair, "--iters", "7")
    assert "Benchmark: 7 iterations in 5 rounds" in done.stdout
    done = bench_run_command("--op", "relu: dims=8x8", *pair, "--iters", "3")
    assert "Benchmark: 3 iterations in 3 rounds" in done.stdout
    (tmp_path / "my.py").write_text("import time\ndef relu(x): time.sleep(0.05); return x\n")
    slow = ("-e", "kernel@my.py", "--reference", "none", "--warmup", "0", "--max-time", "0.5")
    one = bench_run_command("--op", "relu: dims=8x8", *slow, "-i", "100")
    assert re.search(r"Benchmark: \d\d of 100 \(max time\), in 5 rounds", one.stdout)
    two = ("--op", "relu: dims=8x8", "--op", "relu: dims=8x9")
    table = bench_run_command(*two, *slow, "-i", "100")
    assert len(re.findall(r"iterations: \d\d of 100 \(max time\)", table.stdout)) == 2
    one = bench_run_command("--op", "relu: dims=8x8", *slow)
    assert re.search(r"Benchmark: \d\d iterations in 5 rounds \(max time\)", one.stdout)
    table = bench_run_command(*two, *slow)
    assert "samples a round, by their time, or less by --max-time (2 cases)" in table.stdout
