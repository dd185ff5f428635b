"""Every release with any single member removed: it still measures, or one sentence names what is
missing. The members come from the stubs, so a new release brings its own tests."""

from __future__ import annotations

import importlib.util
import time

import numpy as np
import pytest

from bench_run.errors import BenchRunError
from bench_run.measure.loop import SamplingBudget, end_to_end, on_device
from bench_run.reference import evaluate
from bench_run.tensors.layout import logical_view
from bench_run.tensors.seeded.inputs import make_inputs
from tests.bench_run.hipdnn.conftest import DOUBLES
from tests.conformance.graphs import FAMILIES

pytestmark = pytest.mark.slow

ADD = FAMILIES["pointwise_add"]("float", "packed")
PROFILES = ("old", "middle", "hard", "newest")
BUDGET = SamplingBudget(warmup=0, iterations=2)
KNOB = {"global.benchmarking": "1"}


def _surface():
    """The stub reader alone; the double itself is imported by the engine."""
    path = DOUBLES / "hipdnn_frontend" / "surface.py"
    spec = importlib.util.spec_from_file_location("surface_of_the_double", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _mutants():
    """All members but the codes of errors, which the double itself cannot do without."""
    surface = _surface()
    return [
        (profile, member)
        for profile in PROFILES
        for member in surface.members(profile)
        if not member.startswith("ErrorCode.")
    ]


def jobs(profile, plugin_folder):
    """Engine spec and options of each way to use a release."""
    number = "1" if profile == "old" else "MIOPEN_ENGINE"
    found = [("hipdnn", {}), (f"hipdnn:{number}", {}), (f"hipdnn@{plugin_folder}", {})]
    if profile != "old":
        found.append(("hipdnn:all", {}))
    if profile in ("hard", "newest"):
        found.append((f"hipdnn:{number}", {"knobs": KNOB}))
    if profile == "newest":
        found.append(("hipdnn:autotune", {}))
    return found


def run(open_engine, spec, profile, variables, options):
    """Outputs of a measured plan, with the samples taken; asks for the choices too."""
    engine = open_engine(spec, profile, variables, **options)
    engine.choices(ADD)
    plan = engine.plan(engine.build(ADD, engine.variants(ADD)[0]))
    inputs = make_inputs(ADD, 0)
    plan.upload(inputs)
    plan.poison()
    samples, _ = end_to_end(plan, engine.stream, BUDGET, None, time.perf_counter_ns)
    if engine.stream.clock != "host":
        samples += on_device(plan, engine.stream, BUDGET, 0)
    assert len(samples) in (2, 4)
    plan.witness()
    found = plan.download()
    plan.close()
    return inputs, found


def expect_right(inputs, found):
    expected = evaluate(ADD, {t.uid: logical_view(inputs[t.uid], t) for t in ADD.inputs})
    output = ADD.outputs[0]
    np.testing.assert_allclose(logical_view(found[output.uid], output), expected[output.uid])


def _parameters():
    """Of the newest release in every run of the tests, of the older ones by `make test-slow`."""
    for profile, member in _mutants():
        marks = () if profile == "newest" else pytest.mark.slow
        yield pytest.param(profile, member, marks=marks, id=f"{profile}-{member}")


@pytest.mark.parametrize(("profile", "member"), list(_parameters()))
def test_a_release_without_one_member_measures_or_names_it(open_engine, plugin, profile, member):
    for spec, options in jobs(profile, plugin("build")):
        try:
            inputs, found = run(open_engine, spec, profile, {"without": member}, options)
        except BenchRunError as error:
            words = str(error)
            assert "\n" not in words
            assert member.rpartition(".")[2].lower() in words.lower()
            continue
        expect_right(inputs, found)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_whole_release_does_every_job(open_engine, plugin, profile):
    for spec, options in jobs(profile, plugin("build")):
        expect_right(*run(open_engine, spec, profile, {}, options))
