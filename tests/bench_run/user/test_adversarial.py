"""``--adversarial``: mistakes that ordinary inputs hide are found, and right kernels pass."""

from __future__ import annotations

import textwrap

import pytest

import bench_run

SOFTMAX = """
import numpy as np

INPUTS = {"x": ("rows", "cols")}
SHAPES = [{"rows": 24, "cols": 40}]

def reference(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

right = reference

def unstable(x):
    e = np.exp(x)
    return e / e.sum(axis=-1, keepdims=True)

def tiny(x):
    return reference(x if abs(x).max() > 0.1 else 0 * x)

def accumulates(x, y):
    global known
    fresh = "known" not in globals() or not np.array_equal(known, x)
    known = x.copy()
    y[...] = reference(x) if fresh else y + reference(x)

def aligned(x, y):
    y[...] = reference(x) if x.ctypes.data % 64 == 0 else 0

def rows(x):
    return reference(x) if np.count_nonzero(x) > x.size / 2 else reference(np.roll(x, 1, 0))

def random(x):
    return reference(x) * (1 + np.float32(1e-7) * np.random.random(x.shape).astype("f"))
"""


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    path = tmp_path_factory.mktemp("adversarial") / "softmax.py"
    path.write_text(textwrap.dedent(SOFTMAX))
    names = ("right", "unstable", "tiny", "accumulates", "aligned", "rows", "random")
    document = bench_run.run(
        [f"case@{path}"],
        engine=["numpy", *(f"kernel:{name}@{path}" for name in names)],
        adversarial=True,
        rounds=1,
        iterations=2,
        warmup=0,
    )
    return dict(zip(("numpy", *names), document.cases, strict=True))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("unstable", "adversarial: magnitude 1000: "),
        ("tiny", "adversarial: magnitude 0.001: "),
        ("accumulates", "a second run: "),
        ("aligned", "adversarial: buffers that begin 16 bytes further on: "),
        ("rows", "adversarial: one-hot rows of x: "),
    ],
)
def test_a_mistake_is_found_by_its_kind_of_inputs(cases, name, kind):
    check = cases[name].validation
    assert "failed" == check.status
    assert kind in check.reason, check.reason


@pytest.mark.long
@pytest.mark.parametrize("name", ["numpy", "right"])
def test_a_right_kernel_passes_all_kinds(cases, name):
    check = cases[name].validation
    assert ("passed", None) == (check.status, check.reason)
    (note,) = [note for note in cases[name].notes if note.startswith("adversarial: right on")]
    assert "11 kinds" in note
    assert note.endswith("two runs are bit-identical")


def test_results_that_differ_in_bits_are_told(cases):
    assert "passed" == cases["random"].validation.status
    assert any("two runs differ in bits" in note for note in cases["random"].notes)
    assert cases["random"].validation.deterministic is False


@pytest.mark.long
def test_operations_of_hipdnn_are_right_on_all_kinds():
    document = bench_run.run(
        [],
        op=[
            "matmul: m=16 n=16 k=16",
            "relu: dims=8x8",
            "softplus: dims=8x8",
            "layernorm: n=4 h=32",
            "sdpa: b=1 h=2 s=16 d=8 mask=causal",
            "conv_fwd: n=1 c=4 h=8 w=8 k=4 r=3 s=3 pad=1",
        ],
        engine=["numpy"],
        adversarial=True,
        rounds=1,
        iterations=1,
        warmup=0,
    )
    assert ["passed"] * len(document.cases) == [c.validation.status for c in document.cases]
