"""How large the page is, how long it takes to make and how long Chromium takes to open it.

Generates two runs in memory, compares them with the real functions and renders the page::

    python tests/benchmarks/html_size.py [CASES [ITERATIONS [FILE]]]

Prints one line each: bytes, seconds, the rise of the process's memory, and the milliseconds until
table and charts of the page stand in a headless Chromium (left out where there is none).
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_schema.codec import collector_paused
from bench_schema.document import (
    Achieved,
    Case,
    Checks,
    Cpu,
    Device,
    Document,
    Engine,
    GraphId,
    Kernel,
    Machine,
    Memory,
    Mismatch,
    Outcome,
    OutputValidation,
    Revision,
    Round,
    Run,
    Settings,
    Telemetry,
    Tool,
    Validation,
    Work,
)

from bench_compare.comparison import compare
from bench_compare.model import Comparison, Side, Source, View
from bench_compare.policy import Policy
from bench_compare.report import render

FAMILIES = {
    "conv_fwd": "conv_fwd_n{0}_c64_h56_w56_k{1}_r3_s3_nhwc",
    "conv_dgrad": "resnet50_stage3_block2_conv_dgrad_n{0}_c256_h14_w14_k{1}_r1_s1_nhwc",
    "conv_fwd+bias+relu": "conv_fwd_bias_relu_n{0}_c128_h28_w28_k{1}_r3_s3_nhwc",
    "matmul": "matmul_b1_m{0}_n4096_k{1}_row_col_row",
    "sdpa": "llama3_70b_prefill_sdpa_b{0}_h64_s4096_d128_k{1}_causal",
    "batchnorm": "batchnorm_inference_n{0}_c{1}_h112_w112",
    "layernorm": "layernorm_t{0}_h{1}",
    "pointwise": "pointwise_add_relu_n{0}_m{1}",
}
"""Operation family to the pattern of its graphs' names."""
RUN_EFFECT, ITERATION_SD, TAIL = 0.003, 0.004, 0.004
CLOCK_MHZ = 1980.0


def settings(rounds: int, iterations: int) -> Settings:
    return Settings(
        timer="events",
        cache="hot",
        duty="cool",
        math="fp32",
        replay=False,
        warmup=10,
        iterations=iterations,
        rounds=rounds,
        min_time_s=None,
        max_time_s=None,
        precision_ratio=None,
        timeout_s=60.0,
        seed=42,
        reference="numpy",
        tolerance="default",
        rtol=None,
        atol=None,
        check_budget_s=1.0,
    )


def machine(driver: str) -> Machine:
    device = Device(
        index=0,
        name="NVIDIA H200",
        uuid="GPU-0",
        driver=driver,
        arch="9.0",
        memory_bytes=150_754_820_096,
        l2_bytes=62_914_560,
        max_sm_clock_mhz=CLOCK_MHZ,
        max_memory_clock_mhz=3201.0,
        power_limit_w=700.0,
        ceiling_gbps=4100.0,
        ceiling_tflops={"BFLOAT16": 780.0, "FLOAT": 60.0},
    )
    cpu = Cpu("Intel Xeon Platinum 8480C", 56, 112)
    commit = Revision("0123456789abcdef0123456789abcdef01234567", False)
    return Machine(
        host="gpu-node-07",
        os="Ubuntu 24.04.2 LTS",
        kernel="6.8.0-60-generic",
        cpu=cpu,
        memory_bytes=2**41,
        python="3.12.3",
        packages={"numpy": "2.4.6"},
        devices=(device,),
        environment={},
        graphs_revision=commit,
    )


def document(label: str, cases: list[Case], driver: str, version: str) -> Document:
    keys = list(dict.fromkeys(case.engine for case in cases)) or ["cudnn"]
    rounds = max((len(case.rounds) for case in cases), default=0)
    iterations = max((sum(len(r.series["device_ns"]) for r in c.rounds) for c in cases), default=0)
    started = f"2026-03-0{2 if label == 'after' else 1}T08:00:00+00:00"
    run = Run(
        id=f"run-{label}",
        label=label,
        tags={"branch": label},
        started=started,
        finished=started,
        complete=True,
        command=("bench-run", "graphs/"),
        tool=Tool("bench-run", "0.1.0"),
        settings=settings(rounds, iterations),
    )
    engines = tuple(
        Engine(key, key, None, None, None, {key: version}, "GPU-0", "NVIDIA H200", {})
        for key in keys
    )
    return Document(1, run, machine(driver), engines, tuple(cases))


def samples(center_ns: float, count: int, rng: np.random.Generator, state: str) -> np.ndarray:
    """Skewed, with spikes; ``two modes`` and ``drift`` as their names say."""
    noise = ITERATION_SD * rng.standard_normal(count) + rng.exponential(TAIL, count)
    noise += np.where(rng.random(count) < 0.004, rng.uniform(0.05, 0.6, count), 0)
    if state == "two modes":
        noise += np.where(np.sin(np.arange(count) / 17 + 6 * rng.random()) > 0.3, 0.045, 0)
    if state == "drift":
        noise += np.linspace(0, 0.03, count)
    return np.rint(center_ns * np.exp(noise)).astype(np.int64)


def rounds(
    median_ns: float, counts: tuple[int, int], rng: np.random.Generator, state: str
) -> tuple[Round, ...]:
    """`counts`: rounds, and samples in each."""
    number, size = counts
    found = []
    for index in range(number):
        clock = CLOCK_MHZ - 30 * rng.random()
        center = median_ns * np.exp(RUN_EFFECT * rng.standard_normal())
        series = {
            "device_ns": samples(center, size, rng, state),
            "e2e_ns": samples(center + 9_000, size, rng, state),
        }
        found.append(
            Round(
                index=index,
                started="2026-03-01T08:00:00+00:00",
                pid=4000 + index,
                position=index,
                series=series,
                warmup={"device_ns": samples(1.2 * center, 10, rng, "")},
                cut={"device_ns": 5 if state == "drift" else 0, "e2e_ns": 0},
                not_warm=(),
                checks=Checks((0, size // 2), (0, 0), (1e-6, 1e-6), ("aa", "aa")),
                device_correction_ns=1200.0,
                telemetry_before=Telemetry(clock, 3201.0, clock - 3, 310.0, 48.0),
                telemetry_after=Telemetry(clock - 15, 3201.0, clock - 20, 520.0, 57.0),
            )
        )
    return tuple(found)


def validation(wrong: bool) -> Validation:
    worst = tuple(Mismatch((0, 3, i), 1.25 - i, "NaN" if i else 1.75) for i in range(5))
    output = OutputValidation(
        uid=7,
        name="Y",
        data_type="BFLOAT16",
        elements=401_408,
        mismatched=5 if wrong else 0,
        max_abs=0.5 if wrong else 0.0039,
        max_rel=0.31,
        relative_l2=0.0021,
        rtol=0.016,
        atol=0.001,
        tolerance_source="bfloat16, 576 products",
        worst=worst if wrong else (),
    )
    reason = "5 of 401408 elements of Y are outside of the tolerance" if wrong else None
    status = "failed" if wrong else "passed"
    return Validation(status, "numpy", reason, (output,), 10, 10 * wrong, True)


def case(number: int, engine: str, median_ns: float, found: tuple[Round, ...]) -> Case:
    """The `number`-th graph of the suite, completed."""
    family = list(FAMILIES)[number % len(FAMILIES)]
    name = FAMILIES[family].format(1 + number // 40, 8 * (1 + number % 40))
    name = f"{name}_{number}"
    flops = round(median_ns * 1e3 * (20 + number % 300))
    moved = round(median_ns * (500 + number % 2000))
    ms = 1_000_000
    init = {"load_ns": 0.4, "import_ns": 310, "build_ns": 3, "plan_ns": 90, "first_run_ns": 1.5}
    return Case(
        id=f"{name}@{engine}",
        graph=GraphId(
            name, f"graphs/{name}.json", f"{number:064x}", f"fp{number}", family, "BFLOAT16"
        ),
        engine=engine,
        variant={},
        outcome=Outcome("completed", None),
        init={
            phase: np.full(len(found), value * ms).astype(np.int64) for phase, value in init.items()
        },
        rounds=found,
        summary={},
        validation=validation(False),
        work=Work(flops, moved, flops / moved),
        achieved=Achieved("device_ns", flops / median_ns / 1e3, moved / median_ns, 0.42),
        memory=Memory(2**28, 2**23, 2**25),
        plan={"engine id": str(number % 12), "math": "bf16"},
        kernels=(
            Kernel("sm90_xmma_fprop_implicit_gemm_bf16bf16_tilesize128x128x64", 1, median_ns),
        ),
        stopped_by="iterations",
        notes=(),
    )


def suite(number: int, iterations: int, *, slow_share: float = 0.04, seed: int = 0) -> Comparison:
    """`number` graphs of `iterations` samples a side in five rounds, some of them changed."""
    rng = np.random.default_rng(seed)
    counts = (5, max(iterations // 5, 1))
    sides: list[list[Case]] = [[], []]
    for place in range(number):
        median_ns = float(10 ** rng.uniform(3.2, 7))
        changed = rng.random()
        ratio = 1 + (0.02 + rng.exponential(0.08)) * (changed < slow_share)
        ratio *= 1 / (1 + rng.exponential(0.1)) if changed > 1 - 2 * slow_share else 1
        state = rng.choice(["", "two modes", "drift"], p=[0.94, 0.04, 0.02])
        for side, center in zip(sides, (median_ns, median_ns * ratio), strict=True):
            side.append(case(place, "cudnn", center, rounds(center, counts, rng, str(state))))
    base = document("before", sides[0], "570.133.20", "9.10.2")
    other = document("after", sides[1], "580.65.06", "9.13.0")
    return compare(side_of(base), [side_of(other)], Policy())


def side_of(*documents: Document) -> Side:
    label = documents[0].run.label or "run"
    sources = tuple(Source(f"{label}.json", one, "bench") for one in documents)
    keys = tuple(engine.key for engine in documents[0].engines)
    return Side(label, sources, keys)


def opened_ms(path: Path) -> float | None:
    """Milliseconds from the start of loading until table and charts are there; None: no browser."""
    try:
        from selenium import webdriver
    except ImportError:
        return None
    if not Path("/usr/bin/chromium").exists():
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    with tempfile.TemporaryDirectory() as profile:
        quiet = ("background-networking", "component-update", "sync")
        flags = ["headless=new", "no-sandbox", "disable-gpu", "no-first-run"]
        flags += [*(f"disable-{name}" for name in quiet), f"user-data-dir={profile}"]
        for flag in flags:
            options.add_argument(f"--{flag}")
        service = webdriver.ChromeService("/usr/bin/chromedriver")
        driver = webdriver.Chrome(options=options, service=service)
        try:
            return ready_ms(driver, path)
        finally:
            driver.quit()


def ready_ms(driver: object, path: Path, patience_s: float = 60.0) -> float | None:
    driver.get(path.resolve().as_uri())  # type: ignore[attr-defined]
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        ready = driver.execute_script("return document.documentElement.dataset.ready")  # type: ignore[attr-defined]
        if ready:
            return float(ready)
        time.sleep(0.05)
    return None


def main(arguments: list[str]) -> None:
    number = int(arguments[0]) if arguments else 5_000
    iterations = int(arguments[1]) if len(arguments) > 1 else 1_000
    comparison = suite(number, iterations)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    with collector_paused():  # as in the command
        text = render("html", comparison, View())
    seconds = time.perf_counter() - start
    added_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    with tempfile.TemporaryDirectory() as folder:
        path = Path(arguments[2] if len(arguments) > 2 else f"{folder}/page.html")
        path.write_text(text, encoding="utf-8")
        ready = opened_ms(path)
    print(f"{number} cases of {iterations} iterations a side")
    print(f"page      {len(text.encode()) / 1e6:.2f} MB")
    print(f"rendering {seconds:.2f} s, {added_mib:.0f} MiB more")
    print(f"opening   {'no Chromium here' if ready is None else f'{ready:.0f} ms'}")


if __name__ == "__main__":
    main(sys.argv[1:])
