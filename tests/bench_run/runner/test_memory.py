"""Memory is known before it is taken: a case that does not fit is not started, the run goes on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench_schema.files import read

from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import parse_spec
from bench_run.graph.make.spec import make_graphs
from bench_run.plan.engines import PlannedEngine
from bench_run.runner.memory import MemoryBytes, case_need, lack_of_memory

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="limits and peaks as Linux has them")
ROOT = Path(__file__).resolve().parents[3]
QUICK = ("--rounds", "1", "--iters", "2", "--warmup", "0", "--reference-cache", "off")
LARGE = "relu: n=64 c=64 h=128 w=128 dtype=float"
"""256 MiB a tensor."""
SMALL = "relu: dims=4x8 dtype=float"


def need(spec, engine="numpy", device="cpu", checked=True, **options):
    (graph,) = make_graphs(spec, "common")
    planned = PlannedEngine(engine, parse_spec(engine), EngineOptions(**options), "auto")
    return case_need(graph, planned, device, checked=checked)


def run_limited(mebibytes, output, *words):
    """A run whose processes may have so much data each."""
    command = [sys.executable, "-m", "bench_run", *words, *QUICK, "-o", str(output)]
    limited = ["sh", "-c", f'ulimit -d {mebibytes * 1024}; exec "$@"', "sh", *command]
    paths = [str(ROOT), str(ROOT / "schema"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.run(limited, env=environment, capture_output=True, text=True, check=False)


def test_a_case_counts_buffers_outputs_and_the_reference():
    tensor = 64 * 64 * 128 * 128 * 4
    unchecked = need(LARGE, checked=False).host
    assert 4 * tensor < unchecked <= 7 * tensor
    assert unchecked < need(LARGE).host < 15 * tensor


def test_copies_that_take_turns_count():
    assert need(LARGE).host < need(LARGE, cache="rotate").host


def test_on_a_device_buffers_are_its_own():
    tensor = 64 * 64 * 128 * 128 * 4
    on_device = need(LARGE, "cudnn", "GPU-0", checked=False)
    assert MemoryBytes(2 * tensor, 2 * tensor) == on_device
    assert need(LARGE).device is None


def test_attention_on_a_processor_needs_no_more_for_more_scores():
    one, many = (need(f"sdpa: b=1 h={h} s=8192 d=64 stats=true", "torch:cpu") for h in (1, 32))
    assert many.host - one.host < 32 * 8192 * 64 * 4 * 40 < 32 * 8192 * 8192 * 4
    compiled = need("sdpa: b=1 h=32 s=8192 d=64 stats=true", "torch:cpu+compile")
    assert compiled.host > 24e9


@pytest.mark.parametrize(
    ("needed", "free", "expected"),
    [
        ((10**9, None), (2 * 10**9, None), None),
        ((24.1e9, None), (6.3e9, None), "needs about 24.1 GB of memory, 6.3 GB are free"),
        ((1, 5e9), (10, 4e9), "needs about 5.0 GB of memory on the device, 4.0 GB are free"),
        ((1, 5e9), (10, None), None),
    ],
)
def test_a_refusal_has_both_figures_and_says_what_to_do(needed, free, expected):
    reason = lack_of_memory(MemoryBytes(*needed), MemoryBytes(*free))
    assert expected == (None if reason is None else reason.partition(";")[0])
    assert reason is None or "--scale-batch" in reason


@pytest.mark.long
@LINUX
def test_a_case_beyond_what_is_free_is_skipped_and_the_run_goes_on(tmp_path):
    done = run_limited(900, tmp_path / "d.json", "--op", LARGE, "--op", SMALL, "--engine", "numpy")
    large, small = read(tmp_path / "d.json").cases
    assert ("skipped", "completed") == (large.outcome.status, small.outcome.status)
    pattern = r"needs about \d\.\d GB of memory, 0\.\d GB are free; smaller: --scale-batch N"
    assert re.fullmatch(pattern, large.outcome.reason)
    assert large.outcome.reason in done.stdout + done.stderr


@pytest.mark.long
@LINUX
def test_an_engine_that_grows_is_lost_in_words_and_others_are_measured(hostile, tmp_path):
    engines = ("--engine", "hostile:grow", "--engine", "numpy")
    run_limited(700, tmp_path / "d.json", "--op", SMALL, *engines)
    lost, measured = read(tmp_path / "d.json").cases
    assert ("failed", "completed") == (lost.outcome.status, measured.outcome.status)
    assert "Unable to allocate 256. MiB" in lost.outcome.reason
    assert "passed" == measured.validation.status


@LINUX
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numpy", "torch:cpu"])
def test_estimates_are_near_real_peaks(engine, root):
    """Over all graphs: `tests/benchmarks/memory_estimate.py`."""
    if engine == "torch:cpu":
        pytest.importorskip("torch")
    specs = (
        "add: n=16 c=64 h=112 w=112 dtype=float",
        "conv_fwd: n=8 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 dtype=half layout=nhwc",
        "sdpa: b=1 h=8 s=2048 d=64 dtype=half stats=true",
        "layernorm_bwd: n=8 s=512 h=768 dtype=float",
    )
    words = [word for spec in specs for word in ("--op", spec)]
    command = [sys.executable, "tests/benchmarks/memory_estimate.py", "--engine", engine, *words]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "schema")])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": paths},
    )
    ratios = [float(ratio) for ratio in re.findall(r"ratio (\d+\.\d+)", done.stdout)]
    assert len(specs) == len(ratios)
    assert 0.9 <= min(ratios) <= max(ratios) <= 2.0
