"""How large the page is, how long it takes to make and how long Chromium takes to open it.

Generates two runs, writes their documents, reads and compares them as the command does, and renders
the page.

Usage:
  html_size.py [--cases=N] [--iterations=N] [--output=FILE]

Options:
  --cases=N       [default: 5000]
  --iterations=N  of a case [default: 1000]
  --output=FILE   keep the page

Prints one line each: bytes, seconds of reading and comparing, and of rendering (on the wall, and of
the processor), the rise of the process's memory, and the
milliseconds until the page can be used in a headless Chromium, and until its overview is drawn
(left out where there is no browser). The collector of garbage rests, as it does in the command.
"""

from __future__ import annotations

import gc
import os
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from bench_schema import files
from bench_schema.document import Case, Document, Memory, Round, Work

from bench_compare.comparison.compare import compare
from bench_compare.input.load import load
from bench_compare.input.sides import Grouping, group
from bench_compare.model import Comparison, Side, Source, View
from bench_compare.policy import Policy
from tests.bench_compare.build import gpu_case, gpu_document, gpu_round, gpu_validation
from tests.bench_compare.report.shown import render
from tests.benchmarks.harness import folder, script

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
INIT_NS = {
    "load_ns": 400_000,
    "import_ns": 310_000_000,
    "build_ns": 3_000_000,
    "plan_ns": 90_000_000,
    "first_run_ns": 1_500_000,
}
DRAWN = "#overview .points path"
LABELS = ("before", "after")
ROUNDS = 5
RUN_EFFECT, ITERATION_SD, TAIL = 0.003, 0.004, 0.004
SLOW_SHARE = 0.04


def samples(center_ns: float, count: int, rng: np.random.Generator, state: str) -> np.ndarray:
    """Skewed, with spikes; ``two modes`` and ``drift`` as their names say."""
    noise = ITERATION_SD * rng.standard_normal(count) + rng.exponential(TAIL, count)
    noise += np.where(rng.random(count) < 0.004, rng.uniform(0.05, 0.6, count), 0)
    if state == "two modes":
        noise += np.where(np.sin(np.arange(count) / 17 + 6 * rng.random()) > 0.3, 0.045, 0)
    if state == "drift":
        noise += np.linspace(0, 0.03, count)
    return np.rint(center_ns * np.exp(noise)).astype(np.int64)


def rounds(median_ns: float, size: int, rng: np.random.Generator, state: str) -> list[Round]:
    """`size`: samples in each."""
    found = []
    for index in range(ROUNDS):
        center = median_ns * np.exp(RUN_EFFECT * rng.standard_normal())
        series = {
            "device_ns": samples(center, size, rng, state),
            "e2e_ns": samples(center + 9_000, size, rng, state),
        }
        cut = {"device_ns": 5 if state == "drift" else 0, "e2e_ns": 0}
        found.append(gpu_round(index, series, samples(1.2 * center, 10, rng, ""), cut=cut))
    return found


def case(number: int, median_ns: float, found: list[Round]) -> Case:
    """The `number`-th graph of the suite."""
    family = list(FAMILIES)[number % len(FAMILIES)]
    name = f"{FAMILIES[family].format(1 + number // 40, 8 * (1 + number % 40))}_{number}"
    flops = round(median_ns * 1e3 * (20 + number % 300))
    moved = round(median_ns * (500 + number % 2000))
    return gpu_case(
        name,
        found,
        median_ns,
        sha256=f"{number:064x}",
        family=family,
        init={phase: np.full(len(found), value) for phase, value in INIT_NS.items()},
        validation=gpu_validation(),
        work=Work(flops, moved, flops / moved),
        memory=Memory(2**28, 2**23, 2**25),
        plan={"engine id": str(number % 12), "math": "bf16"},
    )


def suite(number: int, iterations: int, seed: int = 0) -> Comparison:
    """`documents`, compared without being written."""
    base, other = (
        Side(label, (Source(f"{label}.json", one, "bench"),), ("cudnn",))
        for label, one in zip(LABELS, documents(number, iterations, seed), strict=True)
    )
    return compare(base, [other], Policy())


def documents(number: int, iterations: int, seed: int = 0) -> tuple[Document, Document]:
    """`number` graphs of `iterations` samples a side in five rounds, some of them changed."""
    rng = np.random.default_rng(seed)
    size = max(iterations // ROUNDS, 1)
    sides: list[list[Case]] = [[], []]
    for place in range(number):
        median_ns = float(10 ** rng.uniform(3.2, 7))
        changed = rng.random()
        ratio = 1 + (0.02 + rng.exponential(0.08)) * (changed < SLOW_SHARE)
        ratio *= 1 / (1 + rng.exponential(0.1)) if changed > 1 - 2 * SLOW_SHARE else 1
        state = rng.choice(["", "two modes", "drift"], p=[0.94, 0.04, 0.02])
        for side, center in zip(sides, (median_ns, median_ns * ratio), strict=True):
            side.append(case(place, center, rounds(center, size, rng, str(state))))
    more = {"rounds": ROUNDS, "iterations": size * ROUNDS}
    before = gpu_document("before", sides[0], ["cudnn"], hour=8, driver="570.133.20", **more)
    after = gpu_document(
        "after", sides[1], ["cudnn"], hour=9, driver="580.65.06", libraries="9.13.0", **more
    )
    return before, after


def save(paths: list[Path], number: int, iterations: int) -> None:
    for path, one in zip(paths, documents(number, iterations), strict=True):
        files.save(path, one)


def compared(folder: Path, number: int, iterations: int) -> Comparison:
    """From files, as the command does. They are written by a process of its own, so that what it
    takes is not counted."""
    paths = [folder / f"{label}.json" for label in LABELS]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        apart.submit(save, paths, number, iterations).result()
    gc.disable()
    begin = time.perf_counter()
    sources, _ = load(map(str, paths))
    base, others = group(sources, Grouping())
    comparison = compare(base, others, Policy())
    print(f"reading   {time.perf_counter() - begin:.2f} s, with the comparison")
    return comparison


def opened_ms(path: Path) -> tuple[float, float | None] | None:
    """Milliseconds from the start of loading until the page can be used, and from scrolling to the
    overview until it is drawn (0 where it was in sight); None: no browser."""
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
            ready = ready_ms(driver, path)
            return None if ready is None else (ready, drawn_ms(driver))
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


def drawn_ms(driver: object, patience_s: float = 60.0) -> float | None:
    """Milliseconds from scrolling to the overview until it is drawn."""
    begin = time.monotonic()
    driver.execute_script(  # type: ignore[attr-defined]
        "document.getElementById('overview').scrollIntoView()"
    )
    while time.monotonic() < begin + patience_s:
        if driver.execute_script(f"return document.querySelectorAll('{DRAWN}').length"):  # type: ignore[attr-defined]
            return 1000 * (time.monotonic() - begin)
        time.sleep(0.02)
    return None


def main(cases: int, iterations: int, output: str | None) -> None:
    print(f"{cases} cases of {iterations} iterations a side")
    with folder() as scratch:
        comparison = compared(scratch, cases, iterations)
        path = Path(output or scratch / "page.html")
        rendered(comparison, path)
        ready = opened_ms(path)
    if ready is None:
        print("opening   no Chromium here")
    else:
        print(
            f"opening   {ready[0]:.0f} ms, "
            f"the overview {ready[1] or 0:.0f} ms after scrolling to it"
        )


def rendered(comparison: Comparison, path: Path) -> None:
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, begin = time.perf_counter(), os.times()
    text = render("html", comparison, View())
    seconds, end = time.perf_counter() - start, os.times()
    own = end.user + end.system - begin.user - begin.system
    added_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    path.write_text(text, encoding="utf-8")
    print(f"page      {path.stat().st_size / 1e6:.2f} MB")
    print(f"rendering {seconds:.2f} s, {own:.2f} s of processor, {added_mib:.0f} MiB more")


if __name__ == "__main__":
    script(main)
