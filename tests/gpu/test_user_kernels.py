"""Functions of a user's file on an NVIDIA GPU: values, times, knobs, cheats."""

from __future__ import annotations

import importlib
import json
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from bench_schema.estimate import case_time

import bench_run

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "bench_run" / "examples"
TRITON = f"kernel@{EXAMPLES / 'in_triton.py'}"
sys.path.insert(0, str(ROOT / "tests" / "exploits"))

pytestmark = pytest.mark.gpu
QUICK = {"rounds": 3, "iterations": 60}
PRODUCT = "matmul: m=2048 n=2048 k=2048 dtype=half"


def needs(name):
    return pytest.importorskip(name)


def run(graphs=(), **options):
    return bench_run.run(list(graphs), **{**QUICK, **options})


def state(case):
    return case.outcome.status, case.validation and case.validation.status, case.implausible


RIGHT = ("completed", "passed", None)


def test_triton_is_right_beside_pytorch_and_cudnn():
    needs("triton")
    ops = [
        PRODUCT,
        "sdpa: b=2 h=8 s=1024 d=64 dtype=half",
        "sdpa: b=2 h=4 s=512 d=128 dtype=half mask=causal",
    ]
    found = run(op=ops, engine=["torch:cuda", "cudnn", TRITON], sdpa_scale="rsqrt")
    assert {RIGHT} == {state(case) for case in found.cases}
    softmax = ROOT / "graphs" / "operators" / "softmax.py"
    found = run([f"case@{softmax}"], engine=["torch:cuda", TRITON])
    assert {RIGHT} == {state(case) for case in found.cases}


def kernel_ns(function, *arguments):
    """Median time of the kernels of a call, by the records of PyTorch's profiler (CUPTI)."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    for _ in range(20):
        function(*arguments)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(200):
            function(*arguments)
        torch.cuda.synchronize()
    times = [e.device_time_total * 1000 for e in profiler.events() if e.device_time_total > 0]
    return statistics.median(times)


def test_times_are_those_of_cupti_within_two_percent():
    """Each kernel is one launch. The target is 1 %; clocks move more than that between runs."""
    torch = needs("torch")
    triton = importlib.import_module("triton")
    spec = importlib.util.spec_from_file_location("in_triton", EXAMPLES / "in_triton.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.half)
    b, c = torch.randn_like(a), torch.empty_like(a)
    grid = (triton.cdiv(4096, 128) * triton.cdiv(4096, 256),)
    strides = (4096, 1) * 3

    def product():
        module._matmul[grid](
            a,
            b,
            c,
            4096,
            4096,
            4096,
            *strides,
            BM=128,
            BN=256,
            BK=64,
            GROUP=8,
            num_stages=3,
            num_warps=8,
        )

    x, y = torch.randn(8192, 4096, device="cuda"), torch.empty(8192, 4096, device="cuda")
    softmax = ROOT / "graphs" / "operators" / "softmax.py"
    rows = []
    for name, by_hand, document in (
        (
            "matmul",
            kernel_ns(product),
            run(op=["matmul: m=4096 n=4096 k=4096 dtype=half"], engine=[TRITON], rounds=5),
        ),
        (
            "softmax",
            kernel_ns(module.softmax, x, y),
            run([f"{softmax}: rows=8192 cols=4096 dtype=float"], engine=[TRITON], rounds=5),
        ),
    ):
        (case,) = document.cases
        rows.append((name, by_hand, case_time(case).ns, case_time(case).ns / by_hand - 1))
    print(rows)
    assert all(abs(row[3]) < 0.02 for row in rows), rows


def test_cupy_runs_on_the_stream_of_the_run():
    needs("cupy")
    engine = f"kernel@{EXAMPLES / 'in_cupy.py'}"
    cases = run(op=["relu: dims=4096x4096"], engine=["torch:cuda", engine]).cases
    assert {RIGHT} == {state(case) for case in cases}
    assert all("device_ns" in case.summary for case in cases)


def test_jax_is_right_and_its_times_are_no_shorter_than_its_work(monkeypatch):
    needs("jax")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    engine = f"kernel@{EXAMPLES / 'in_jax.py'}"
    cases = run(op=[PRODUCT, "relu: dims=4096x4096"], engine=["torch:cuda", engine]).cases
    assert {RIGHT} == {state(case) for case in cases}
    for case in cases:
        print(case.id, case.summary.keys(), case_time(case).ns, case.notes)
    by = {(case.graph.family, case.engine): case for case in cases}
    for family in ("matmul", "relu"):
        ours, theirs = by[family, "torch:cuda"], by[family, engine]
        assert case_time(theirs).ns > 0.7 * case_time(ours).ns


def test_knobs_of_a_product_race(tmp_path):
    needs("triton")
    command = [sys.executable, "-m", "bench_run", "tune", "--op", PRODUCT, "--engine", TRITON]
    command += ["-o", str(tmp_path / "tuned.json")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=400)
    print(done.stdout[-3000:], done.stderr[-500:])
    assert 0 == done.returncode, done.stderr
    record = json.loads((tmp_path / "tuned.json").read_text())
    assert 1 == len(record["tuned"]["entries"])


def test_each_of_three_edits_is_measured(tmp_path):
    needs("triton")
    path = tmp_path / "mine.py"
    text = (EXAMPLES / "in_triton.py").read_text()
    path.write_text(text)
    command = [sys.executable, "-m", "bench_run", "--op", PRODUCT, "--watch", "--rounds", "3"]
    command += ["--a", "torch:cuda", "--b", "kernel@mine.py"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)

    def line(word):
        return next(x for x in process.stdout if word in x)

    try:
        line("watching")
        for old, new, word in (
            ('"BM": (128, 64)', '"BM": (64,)', "passed"),
            ("total.to(", "(total * 1.01).to(", "failed"),
            ("(total * 1.01).to(", "total.to(", "passed"),
        ):
            text = text.replace(old, new)
            path.write_text(text)
            print(line(word))
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(60)
    finally:
        process.kill()


def test_cheats_are_found_and_honest_functions_believed(monkeypatch):
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    cheats = importlib.import_module("torch_cheats")
    engine = f"kernel@{ROOT / 'tests' / 'exploits' / 'torch_cheats.py'}"
    document = run(op=["matmul: m=1024 n=1024 k=1024"], engine=[engine])
    found = {case.variant["kernel"]: case for case in document.cases}
    assert cheats.TABLE.keys() == found.keys()
    for name, kind in cheats.TABLE.items():
        if kind == cheats.HONEST:
            assert RIGHT == state(found[name]), name
        elif kind == cheats.WRONG:
            assert "failed" == found[name].validation.status, name
        else:
            assert RIGHT != state(found[name]), name


EVERY = importlib.import_module("cheats")
CLOCKS = EVERY.cheats_of(ROOT / "tests/exploits/clock_cheats.py")


@pytest.mark.parametrize("how", [{}, {"replay": True}, {"a": "torch:cuda"}], ids=str)
@pytest.mark.parametrize(
    "cheat",
    [*(one for one in CLOCKS if one.found_by != EVERY.NOT_FOUND), None],
    ids=lambda one: one.name if one else "plain",
)
def test_a_clock_that_is_changed_is_contradicted_by_that_of_the_run(cheat, how):
    name = "plain" if cheat is None else cheat.name
    engine = f"kernel:{name}@{ROOT / 'tests/exploits/clock_cheats.py'}"
    side = {"b": engine} if "a" in how else {"engine": [engine]}
    if name.startswith("events"):  # CUPTI's records would be the times
        side["timer"] = "events"
    document = run(op=["matmul: m=1024 n=1024 k=1024"], rounds=2, **how, **side)
    told = document.cases[-1].implausible
    assert told is None if cheat is None else cheat.found_by in told


ADD = r"""
#include "bench_kernel.h"

template <typename T, int KEPT>
__global__ void __launch_bounds__(256, BLOCKS) add_kernel(const T *a, const T *b, T *c, int64_t n) {
  float kept[KEPT];
  int64_t first = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  int64_t step = gridDim.x * (int64_t)blockDim.x;
  for (int64_t i = first; i < n; i += step * KEPT) {
#pragma unroll
    for (int k = 0; k < KEPT; ++k) kept[k] = i + k * step < n ? (float)a[i + k * step] : 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < KEPT; ++k)
      if (i + k * step < n) c[i + k * step] = (T)(kept[k] + (float)b[i + k * step]);
  }
}

BENCH_KERNEL(add) {
  int64_t n = 1;
  for (int i = 0; i < out[0]->ndim; ++i) n *= out[0]->shape[i];
  add_kernel<float, KEPT_VALUES><<<132, 256, 0, (cudaStream_t)stream>>>(
      (const float *)in[0]->data, (const float *)in[1]->data, (float *)out[0]->data, n);
  return cudaGetLastError();
}
"""
LEAN = "// flags: -DKEPT_VALUES=1 -DBLOCKS=1\n"
SPILLING = "// flags: -DKEPT_VALUES=96 -DBLOCKS=8\n"


@pytest.fixture
def compiled(tmp_path):
    def write(head, name="add.cu"):
        path = tmp_path / name
        path.write_text(head + ADD)
        return f"kernel@{path}"

    return write


def test_a_source_of_cuda_is_built_and_right(compiled):
    document = run(op=["add: n=64 c=64 h=56 w=56"], engine=[compiled(LEAN)])
    assert RIGHT == state(document.cases[0])
    assert "nvcc" in document.engines[0].libraries


def test_a_kernel_that_spills_is_told_by_its_launch(compiled):
    needs("cupti")
    cases = [
        run(op=["add: n=64 c=64 h=56 w=56"], engine=[compiled(head)]).cases[0]
        for head in (LEAN, SPILLING)
    ]
    assert [RIGHT, RIGHT] == [state(case) for case in cases]
    lean, spilling = (case.kernels[0].launch for case in cases)
    assert lean.local_bytes == 0 < spilling.local_bytes
    assert (132, 1, 1) == lean.grid == spilling.grid
    assert (256, 1, 1) == lean.block == spilling.block
    assert lean.registers < 64
    assert 32 >= spilling.registers


def test_a_code_of_cuda_is_told_by_its_name(compiled):
    source = compiled(LEAN).partition("@")[2]
    text = Path(source).read_text().replace("<<<132, 256", "<<<132, 4096")
    Path(source).write_text(text)
    case = run(op=["add: n=4 c=4 h=8 w=8"], engine=[f"kernel@{source}"]).cases[0]
    assert "failed" == case.outcome.status
    assert "add.cu: add returned 1 (invalid argument)" == case.outcome.reason


def test_occupancy_is_what_the_driver_answers():
    cupy = needs("cupy")
    from bench_run.streams.cupti import limits, occupancy

    code = 'extern "C" __global__ void __launch_bounds__(%d) k(float *x) { %s }'
    body = (
        "float v[%d]; for (int i = 0; i < %d; ++i) v[i] = x[i * 37 + threadIdx.x];"
        "for (int i = 0; i < %d; ++i) x[threadIdx.x + i] += v[i] * v[%d - 1 - i];"
    )
    asked = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor
    for threads in (64, 128, 256, 384, 1024):
        for kept in (1, 32, 60):
            for shared in (0, 20_000, 100_000):
                text = code % (threads, body % (kept, kept, kept, kept))
                kernel = cupy.RawKernel(text, "k")
                kernel.max_dynamic_shared_size_bytes = shared
                blocks = asked(kernel.kernel.ptr, threads, shared)
                whole = shared + kernel.shared_size_bytes
                found = occupancy(limits(0), threads, kernel.num_regs, whole)
                assert blocks * threads / 2048 == found, (threads, kernel.num_regs, shared)


def test_a_first_kernel_in_cuda_is_right():
    engine = f"kernel@{EXAMPLES / 'in_cuda.cu'}"
    assert RIGHT == state(run(op=["relu: dims=4096x4096"], engine=[engine]).cases[0])


@pytest.mark.parametrize(
    ("framework", "module"),
    [("cuda", None), ("triton", "triton"), ("cupy", "cupy"), ("jax", "jax")],
)
def test_an_untouched_template_is_right_under_each_line_that_it_prints(
    tmp_path, framework, module, monkeypatch
):
    if module is not None:
        needs(module)
    elif shutil.which("nvcc") is None:
        pytest.skip("there is no nvcc")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    tool = [sys.executable, "-m", "bench_run"]

    def told(*words):
        return subprocess.run(
            [*tool, *words], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )

    lines = told("init", "kernel", framework).stdout.splitlines()
    typed = [shlex.split(line)[1:] for line in lines if line.startswith("  bench-run ")]
    for words in typed:
        if "--watch" not in words:  # its first measurement is that of the line before
            done = told(*words, "--rounds", "2", "--iters", "20")
            assert done.returncode == 0, done.stdout + done.stderr
