"""Every job on every state of the bindings; and what one may do otherwise is one sentence."""

from __future__ import annotations

import enum
import sys
import time

import numpy as np
import pytest

from bench_run.errors import BenchRunError
from bench_run.measure.budget import SamplingBudget
from bench_run.measure.loop import end_to_end, on_device
from bench_run.reference import evaluate
from bench_run.tensors.layout import logical_view
from bench_run.tensors.seeded.inputs import make_inputs
from tests.bench_run.hipdnn.conftest import STATES, forget
from tests.conformance.graphs import FAMILIES

ADD = FAMILIES["pointwise_add"]("float", "packed")
BUDGET = SamplingBudget(warmup=0, iterations=2)
JOBS = (
    ("hipdnn", {}),
    ("hipdnn:MIOPEN_ENGINE", {}),
    ("hipdnn:all", {}),
    ("hipdnn:MIOPEN_ENGINE", {"knobs": {"global.benchmarking": "1"}}),
    ("hipdnn:autotune", {}),
)


def run(open_engine, spec, profile, **options):
    """Outputs of a measured plan, with the samples taken; asks for the choices too."""
    engine = open_engine(spec, profile, **options)
    engine.choices(ADD)
    plan = engine.plan(engine.build(ADD, engine.variants(ADD)[0]))
    inputs = make_inputs(ADD, 0)
    plan.upload(inputs)
    plan.poison()
    samples = end_to_end(plan, engine.stream, BUDGET, time.perf_counter_ns)
    samples += on_device(plan, engine.stream, BUDGET, 0)
    assert 4 == len(samples)
    plan.witness()
    found = plan.download()
    plan.close()
    return inputs, found


def expect_right(inputs, found):
    expected = evaluate(ADD, {t.uid: logical_view(inputs[t.uid], t) for t in ADD.inputs})
    output = ADD.outputs[0]
    np.testing.assert_allclose(logical_view(found[output.uid], output), expected[output.uid])


@pytest.mark.parametrize(("spec", "options"), JOBS)
@pytest.mark.parametrize("state", STATES)
def test_a_state_does_every_job(open_engine, state, spec, options):
    expect_right(*run(open_engine, spec, state, **options))


def test_a_plan_without_a_workspace_is_given_none(open_engine, plugin):
    expect_right(*run(open_engine, f"hipdnn@{plugin('build', workspace_bytes=0)}", "newest"))


def replaced(owner, name, make):
    """`owner.name` becomes what `make` makes of it."""

    def patch(monkeypatch, module):
        place = getattr(module, owner) if owner else module
        monkeypatch.setattr(place, name, make(getattr(place, name)))

    return patch


def raising(error):
    return lambda _: lambda *_, **__: (_ for _ in ()).throw(error)


def returning(value):
    return lambda _: lambda *_, **__: value


class Wordless(Exception):
    """As a binding raises it that translates no text."""


SAYS = {
    "a wait without words": (
        replaced("", "hip_stream_synchronize", raising(Wordless())),
        r"1\.2\.0: synchronise: Wordless",
    ),
    "a handle that wants a stream": (
        replaced("", "create_handle", raising(TypeError("incompatible function arguments\nlist"))),
        r"1\.2\.0: create_handle: incompatible function arguments$",
    ),
    "steps that return nothing": (
        replaced("Graph", "validate", returning(None)),
        r"Graph\.validate: 'NoneType' object has no attribute 'is_good'",
    ),
    "a hard choice that returns nothing": (
        replaced("Graph", "create_execution_plan_ext", returning(None)),
        r"Graph\.create_execution_plan_ext: 'NoneType' object has no attribute 'is_good'",
    ),
    "an execution that returns nothing": (
        replaced("Graph", "execute", returning(None)),
        r"Graph\.execute: 'NoneType' object has no attribute 'is_good'",
    ),
    "a negative workspace": (
        replaced("Graph", "get_workspace_size", returning(-1)),
        r"1\.2\.0: DeviceBuffer of -1 bytes for the workspace: ",
    ),
    "no types": (
        replaced("", "DataType", lambda _: enum.Enum("DataType", {"F32": 0})),
        r"1\.2\.0 has no data type float, which ",
    ),
}


@pytest.mark.parametrize("oddity", SAYS)
def test_it_says_in_one_sentence_what_is_otherwise(double, open_engine, monkeypatch, oddity):
    patch, words = SAYS[oddity]
    patch(monkeypatch, double())
    monkeypatch.setattr("tests.bench_run.hipdnn.conftest.forget", lambda: None)
    assert "hipdnn_frontend" in sys.modules
    with pytest.raises(BenchRunError, match=words) as caught:
        run(open_engine, "hipdnn:MIOPEN_ENGINE", "newest")
    assert "\n" not in str(caught.value)
    forget()
