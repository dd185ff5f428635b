"""Comparisons written down by hand: the renderers are tested without the statistics."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from bench_schema.document import Outcome

from bench_compare.model import (
    BadNews,
    CaseComparison,
    CaseSide,
    CommonMovement,
    Comparison,
    MetricComparison,
    Note,
    Sensitivity,
    SettingDifference,
    Side,
    Source,
    SuiteNumber,
    Verdict,
    View,
)
from tests.bench_compare.build import (
    gpu_case,
    gpu_document,
    gpu_round,
    gpu_validation,
)

HOSTILE = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "\"'><svg onload=window.hacked=1>",
    "\u202egnp.exe\u2066 right to left",
    "[link](javascript:window.hacked=1) `code` | bar **bold** @someone #1",
    '=HYPERLINK("http://example.org")\x1b[31m\nnew line\u2028separator',
    "{{hostile}}%(hostile)s${hostile}<!-- ]]> &amp; \\u003c",
    "__proto__",
)
ROUNDS, ITERATIONS = 5, 20


def document(label, cases=(), *, driver="570.10", hour=8, keys=("cudnn",)):
    iterations = ROUNDS * ITERATIONS
    return gpu_document(label, cases, keys, hour=hour, driver=driver, iterations=iterations)


def samples(median_ns, rng, count=ITERATIONS):
    spread = rng.gamma(2.0, 0.004, count) + rng.normal(0, 0.003)
    return np.rint(min(median_ns, 1e15) * (1 + spread)).astype(np.int64)


def rounds(median_ns, seed):
    rng = np.random.default_rng(seed)
    return [
        gpu_round(
            index,
            {"device_ns": samples(median_ns, rng), "e2e_ns": samples(1.3 * median_ns, rng)},
            samples(1.1 * median_ns, rng, 10),
        )
        for index in range(ROUNDS)
    ]


def case(name, median_ns, *, seed=0, wrong=False, **changes):
    changes = {"validation": gpu_validation(wrong), **changes}
    return gpu_case(name, rounds(median_ns, seed), median_ns, **changes)


def broken(name, **changes):
    """It ended in its first run: nothing was measured."""
    gone = Outcome("failed", "CUDNN_STATUS_EXECUTION_FAILED", "first_run", "last words")
    nothing = {"init": {}, "achieved": None, "kernels": ()}
    return gpu_case(name, (), 1.0, outcome=gone, **nothing, **changes)


def metric(name, base, ratio, verdict, *, half=0.004, **changes):
    other = None if ratio is None else base * ratio
    values = {
        "metric": name,
        "base": base,
        "other": other,
        "ratio": ratio,
        "ci_low": None if ratio is None else ratio * (1 - half),
        "ci_high": None if ratio is None else ratio * (1 + half),
        "p": 0.0001,
        "q": 0.0004,
        "verdict": verdict,
        "make_reason": lambda: f"{name} is {verdict}",
        "threshold_ratio": 0.01,
        "base_rounds": 5,
        "other_rounds": 5,
        "unit": "round",
        "provisional": False,
        "rounds_needed": None,
        "needed_unit": "round",
        "seen_ratio": None if ratio is None else 1.01 / (1 - half),
    }
    return MetricComparison(**{**values, **changes})


def row(index, name, verdict, ratio=None, *, base_ns=20_000.0, engine="cudnn", **changes):
    """A case of a comparison with samples of its own; without a ratio one side has none."""
    family, notes = changes.pop("family", "conv_fwd"), changes.pop("notes", ())
    half = changes.pop("half", 0.004)
    metrics = {}
    if ratio is not None:
        extra = {
            key: changes.pop(key) for key in ("provisional", "rounds_needed") if key in changes
        }
        if extra.get("provisional"):
            extra |= {"base_rounds": 1, "other_rounds": 1}
        metrics["device_ns"] = metric("device_ns", base_ns, ratio, verdict, half=half, **extra)
        metrics["e2e_ns"] = metric("e2e_ns", 1.3 * base_ns, ratio, verdict, half=2 * half)
    wrong = verdict is Verdict.NEWLY_WRONG
    where = {"engine": engine, "family": family}
    one = case(name, base_ns, seed=index, **where)
    if verdict is Verdict.BROKEN:
        two = broken(name, **where)
    else:
        two = case(name, base_ns * (ratio or 1), seed=index + 1, wrong=wrong, **where)
    values = {
        "id": f"c{index:04}",
        "name": name,
        "fingerprint": f"fp-{name}",
        "family": family,
        "data_type": "BFLOAT16",
        "engine": engine,
        "variant": {},
        "other_label": "after",
        "base": None if verdict is Verdict.ADDED else CaseSide(name, engine, (one,), (0,)),
        "other": None if verdict is Verdict.REMOVED else CaseSide(name, engine, (two,), (0,)),
        "verdict": verdict,
        "make_reason": partial(str, changes.pop("reason", f"this case is {verdict}")),
        "gate": "device_ns" if metrics else None,
        "make_notes": lambda: notes,
        "metrics": metrics,
    }
    return CaseComparison(**{**values, **changes})


def comparison(cases, **changes):
    """A comparison of ``before`` with ``after`` that consists of these cases."""
    counts = {verdict: sum(case.verdict is verdict for case in cases) for verdict in Verdict}
    keys = tuple(dict.fromkeys(case.engine for case in cases)) or ("cudnn",)
    sides = [
        tuple(one for case in cases if getattr(case, side) for one in getattr(case, side).cases)
        for side in ("base", "other")
    ]
    values = {
        "base": Side(
            "before",
            (Source("before.json", document("before", sides[0], keys=keys), "bench"),),
            keys,
        ),
        "others": (
            Side(
                "after",
                (
                    Source(
                        "after.json",
                        document("after", sides[1], driver="580.65", hour=9, keys=keys),
                        "bench",
                    ),
                ),
                keys,
            ),
        ),
        "gate": "device_ns",
        "metrics": ("device_ns", "e2e_ns"),
        "differences": (),
        "cases": tuple(cases),
        "suite": (),
        "movements": (),
        "counts": counts,
        "bad_news": (),
        "problems": (),
        "policy": {"threshold": "1%", "gate": "device_ns"},
    }
    return Comparison(**{**values, **changes})


def bad(item, sentence, **changes):
    values = {
        "case": item.id,
        "name": item.name,
        "metric": item.gate,
        "verdict": item.verdict,
        "sentence": sentence,
        "allowed": False,
    }
    return BadNews(**{**values, **changes})


LONG = "resnet50_conv2_block1_conv_fwd_bias_relu_n256_c64_h56_w56_k256_r1_s1_nhwc_"
NOTES = (
    Note("bimodal", "other", "two modes, 840 and 2310 ns"),
    Note("drift", "base", "drifts by 2 % over the rounds"),
)
CRASH = "completed in before, failed in after: CUDNN_STATUS_EXECUTION_FAILED in the first run"
SUITE = (
    ("conv_fwd_n8_c64_h56_w56_k64_r3_s3", Verdict.SAME, 1.002, {}),
    (LONG + "bf16", Verdict.SLOWER, 1.137, {}),
    (LONG + "fp32", Verdict.FASTER, 0.41, {"base_ns": 3.4e6, "family": "conv_fwd+bias+relu"}),
    (
        "matmul_m4096_n4096",
        Verdict.UNCLEAR,
        1.012,
        {"base_ns": 6.1e5, "half": 0.02, "rounds_needed": 4},
    ),
    ("sdpa_b4_h32_s2048_d128", Verdict.BROKEN, None, {"reason": CRASH, "family": "sdpa"}),
    ("layernorm_t8192_h4096", Verdict.REMOVED, None, {"reason": "in before, not in after"}),
    ("pool_fwd_n32_c256", Verdict.NEWLY_WRONG, None, {"reason": "2 of 4096 elements are wrong"}),
    (
        "pointwise_add_n4096",
        Verdict.SLOWER,
        2.75,
        {"base_ns": 840.0, "provisional": True, "notes": NOTES},
    ),
    ("softmax_b64_n1024", Verdict.ADDED, None, {"reason": "in after, not in before"}),
    ("batchnorm_n64_c64", Verdict.CLOCK, 1.06, {"base_ns": 151_000.0, "family": "batchnorm"}),
)
FAMILIES = (("conv_fwd", 1.06, 1.05, 1.071, 2), ("matmul", 1.012, 0.99, 1.033, 1))
SEEN = "slow-downs of 3 % would have been seen in 9 of 10 cases"
SLOWER = "device time is slower by more than the threshold of 1 %"


def build():
    """A suite of every kind of verdict, as a reader would meet it."""
    cases = [
        row(i, name, verdict, ratio, **more)
        for i, (name, verdict, ratio, more) in enumerate(SUITE, 1)
    ]
    number = SuiteNumber("after", "device_ns", "all", "all", 1.021, 1.012, 1.03, 6, (5, 5), "round")
    families = [
        SuiteNumber("after", "device_ns", "family", name, ratio, low, high, count, (5, 5), "round")
        for name, ratio, low, high, count in FAMILIES
    ]
    moved = "the suite as a whole moved by +0.4%: same"
    return comparison(
        cases,
        suite=(number, *families),
        differences=(
            SettingDifference("cache", "hot", "cold", "after", True),
            SettingDifference("driver", "570.10", "580.65", "after", False),
        ),
        movements=(
            CommonMovement("after", "device_ns", 1.004, 0.999, 1.009, Verdict.SAME, moved, 12),
        ),
        bad_news=(
            bad(cases[1], SLOWER),
            bad(cases[4], cases[4].reason),
            bad(cases[5], cases[5].reason, allowed=True),
            bad(cases[6], cases[6].reason),
            bad(cases[7], SLOWER),
        ),
        warnings=("after.json is of an unfinished run: 2 cases are missing",),
        sensitivity=(Sensitivity("after", "device_ns", 6, 1.014, 1.03, False, SEEN),),
    )


def hostile():
    return comparison(
        [
            row(
                index,
                name,
                Verdict.SLOWER if index % 2 else Verdict.BROKEN,
                1.2 if index % 2 else None,
                engine=name,
                family=name,
                reason=name,
                variant={name: name},
                notes=(Note("drift", "other", name),),
            )
            for index, name in enumerate(HOSTILE)
        ],
        warnings=HOSTILE,
        differences=tuple(SettingDifference(name, name, name, "after", True) for name in HOSTILE),
        policy={name: name for name in HOSTILE},
    )


@pytest.fixture(scope="session")
def make():
    """The builders of this file, under one name."""
    return SimpleNamespace(**globals())


@pytest.fixture(scope="session")
def suite():
    return build()


@pytest.fixture(scope="session")
def hostile_suite():
    return hostile()


@pytest.fixture
def view():
    return View()
