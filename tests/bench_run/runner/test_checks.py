"""What is timed is what is checked: samples on inputs of their own, drawn from a secret."""

from __future__ import annotations

import json

import pytest

from bench_run import run

NOTES = """
import os, zlib
import numpy as np


def relu(x, y):
    with open({path!r}, "a") as file:
        file.write(f"{{os.getpid()}} {{zlib.crc32(x)}}\\n")
    y[...] = np.maximum(x, 0)
"""
RELU = "relu: dims=16x16"
NEEDS_TORCH = pytest.mark.needs("torch")


@pytest.fixture
def calls(tmp_path):
    """Runs a kernel that notes what it is called with; the contents of each call, by process."""

    def made(**words):
        path = tmp_path / "calls"
        path.write_text("")
        (tmp_path / "my.py").write_text(NOTES.format(path=str(path)))
        document = run([], op=[RELU], engine=[f"kernel@{tmp_path / 'my.py'}"], **words)
        by_process = {}
        for line in path.read_text().splitlines():
            by_process.setdefault(line.split()[0], []).append(line.split()[1])
        return document.cases[0], list(by_process.values())

    return made


def test_no_two_samples_have_the_same_inputs_and_the_last_run_has_those_of_the_first(calls):
    case, processes = calls(rounds=2, iterations=60, placements=1)
    assert "passed" == case.validation.status
    assert 2 == len(processes)
    for contents in processes:
        first, *others = contents
        assert first == others[-1]
        samples = others[:40]  # 30 and the warm-up; what the run's own clock times follows
        again = 3  # after a sample that was read one more run brings the caches back
        assert len(set(samples)) >= len(samples) - again


def test_rounds_are_drawn_from_secrets_of_their_own(calls):
    case, processes = calls(rounds=3, iterations=30)
    secrets = {each.secret for each in case.rounds}
    assert 3 == len(secrets)
    assert {32} == {len(secret) for secret in secrets}
    assert 1 == len({contents[0] for contents in processes})
    assert 3 == len({contents[1] for contents in processes})


def test_samples_are_checked_and_the_usual_inputs_say_whether_results_vary(calls):
    case, _ = calls(rounds=2, iterations=60)
    for each in case.rounds:
        assert 1 <= len(each.checks.iteration) == len(set(each.checks.checksum)) <= 2
        assert set(each.checks.iteration) <= set(range(30))
    assert 1 == len({each.checksum for each in case.rounds})
    assert 4 <= case.validation.iterations_checked <= 6  # the last run of each round too
    assert (0, True, True) == (
        case.validation.iterations_mismatched,
        case.validation.deterministic,
        case.validation.inputs_unchanged,
    )


def test_without_a_reference_inputs_stay(calls):
    case, (contents,) = calls(rounds=1, iterations=8, reference="none")
    assert ("not checked", 1) == (case.validation.status, len(set(contents)))


POISONS = """
import glob, tempfile
import numpy as np


def relu(x):
    for path in glob.glob(f"{tempfile.gettempdir()}/bench-run-*/outputs/*/*.npy"):
        with open(path, "r+b") as file:
            file.seek(-8, 2)
            file.write(b"damaged!")
    return np.maximum(x, 0)
"""


def test_expected_outputs_that_an_engine_changes_are_computed_again(tmp_path, bench_run_command):
    (tmp_path / "my.py").write_text(POISONS)
    words = ("--op", RELU, "--engine", "kernel@my.py", "--rounds", "1", "--iters", "8")
    # Not among the files of runs that other tests have begun.
    done = bench_run_command(*words, "-o", "out.json", env={"TMPDIR": str(tmp_path)})
    (case,) = json.loads((tmp_path / "out.json").read_text())["cases"]
    assert (0, "passed") == (done.returncode, case["validation"]["status"]), done.stderr
    assert "the expected outputs were changed on disk" in done.stderr


def test_a_damaged_reference_is_said_and_computed_again(tmp_path, bench_run_command):
    words = ("--op", RELU, "--engine", "numpy", "--rounds", "1", "--iters", "8")
    kept = ("--reference-cache", tmp_path / "kept")
    assert 0 == bench_run_command(*words, *kept).returncode
    for path in (tmp_path / "kept").glob("*.zip"):
        path.write_bytes(path.read_bytes()[:-40] + bytes(40))
    done = bench_run_command(*words, *kept)
    assert (0, True) == (done.returncode, "PASSED against numpy" in done.stdout)
    assert "a kept reference was damaged" in done.stderr
    assert "damaged" not in bench_run_command(*words, *kept).stderr


@pytest.mark.long
def test_an_engine_that_runs_is_measured_the_same_in_strict_runs(calls):
    case, _ = calls(rounds=1, iterations=8, strict=True)
    assert "passed" == case.validation.status


@pytest.mark.parametrize("cache", ["hot", "cold", "rotate", "weights-cold"])
@pytest.mark.parametrize("executions", [1, 3])
def test_an_honest_engine_is_believed_in_every_cache_state(cache, executions):
    """Copies of the buffers that take turns have changes of their own, and may share inputs."""
    ops = ["matmul: m=32 n=32 k=32", "layernorm_bwd: dims=8x32"]
    words = {"rounds": 2, "iterations": 16, "cache": cache, "executions": executions}
    document = run([], op=ops, engine=["numpy"], **words)
    assert ["passed"] * 2 == [case.validation.status for case in document.cases]


@pytest.mark.parametrize("strict", [False, True])
def test_executions_of_a_file_are_timed_by_the_clock_of_the_run_and_all_with_strict(
    strict, tmp_path
):
    (tmp_path / "my.py").write_text("import numpy as np\ndef relu(x): return np.maximum(x, 0)\n")
    engines = [f"kernel@{tmp_path / 'my.py'}", "numpy"]
    words = {"rounds": 1, "iterations": 20, "strict": strict}
    file, numpy = run([], op=["relu: dims=256x256"], engine=engines, **words).cases
    for case, is_asked in ((file, True), (numpy, strict)):
        assert is_asked == bool(case.rounds[0].outside_ns or "too busy to tell" in str(case.notes))


OPS = [
    *("relu: dims=8x8", "matmul: m=8 n=8 k=8", "matmul: batch=2 m=8 n=8 k=8 dtype=half"),
    *("layernorm: dims=8x8", "matmul+bias+relu: m=8 n=8 k=8", "add: dims=8x8 dtype=double"),
]


@pytest.mark.parametrize("engine", ["numpy", pytest.param("torch:cpu", marks=NEEDS_TORCH)])
def test_a_framework_that_is_called_as_a_file_is_gives_the_same(engine):
    words = {"rounds": 1, "iterations": 5}
    document = run([], op=OPS, engine=[f"{engine}+call", engine], **words)
    assert ["passed"] * 2 * len(OPS) == [c.validation.status for c in document.cases]
