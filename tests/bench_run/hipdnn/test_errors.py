"""Every error code of hipDNN becomes its outcome; exceptions never get through as they are."""

from __future__ import annotations

import pytest

import bench_run
from bench_run.engines.hipdnn.errors import MEANINGS, check, foreign_errors
from bench_run.errors import EngineError, UnsupportedGraphError
from tests.bench_run.hipdnn.conftest import STATES
from tests.conformance.graphs import FAMILIES

ADD = FAMILIES["pointwise_add"]("float", "packed")
INVALID = "INVALID_VALUE ATTRIBUTE_NOT_SET SHAPE_DEDUCTION_FAILED INVALID_TENSOR_NAME"
DECLINED = "GRAPH_NOT_SUPPORTED HEURISTIC_QUERY_FAILED GRAPH_EXECUTION_PLAN_CREATION_FAILED"
HERE = "HANDLE_ERROR CUDA_API_FAILED CUDNN_BACKEND_API_FAILED INVALID_CUDA_DEVICE"
KINDS = (
    (INVALID, EngineError, "invalid"),
    ("UNSUPPORTED_GRAPH_FORMAT", UnsupportedGraphError, "does not read it"),
    (DECLINED, UnsupportedGraphError, "no engine runs it"),
    ("INVALID_VARIANT_PACK", EngineError, "please report"),
    ("GRAPH_EXECUTION_FAILED HIPDNN_BACKEND_ERROR", EngineError, "failed during execution"),
    (f"{HERE} NVRTC_COMPILATION_FAILED", EngineError, "installation or of the device"),
)
OUTCOMES = {code: row for codes, *row in KINDS for code in codes.split()}
SLOW = pytest.mark.slow
STEPS = ("validate", "build_operation_graph", "check_support", "build_plans", "execute")


def test_every_code_has_a_meaning():
    assert set(OUTCOMES) == set(MEANINGS)


@pytest.mark.parametrize("code", OUTCOMES)
def test_a_code_becomes_its_error_with_the_step_and_the_first_line(open_engine, code):
    kind, words = OUTCOMES[code]
    engine = open_engine(variables={"fail": f"check_support:{code}"})
    with pytest.raises(kind, match=rf"Graph\.check_support: .*{words}.* \({code}\): .*fail$"):
        engine.build(ADD, {})


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("profile", ["sweep", "newest"])
def test_no_steps_failure_goes_unseen(open_engine, step, profile):
    engine = open_engine(profile=profile, variables={"fail": f"{step}:HIPDNN_BACKEND_ERROR"})
    with pytest.raises(EngineError, match=rf"Graph\.{step}: "):
        engine.plan(engine.build(ADD, {})).run()


@pytest.mark.parametrize("profile", STATES)
def test_no_engine_for_a_graph_is_unsupported_although_its_code_is_a_failures(open_engine, profile):
    variables = {"fail": "create_execution_plans:HIPDNN_BACKEND_ERROR"}
    with pytest.raises(UnsupportedGraphError, match=r"create_execution_plans: no engine runs it"):
        open_engine(profile=profile, variables=variables).build(ADD, {})


@pytest.mark.parametrize("code", ["HIPDNN_BACKEND_ERROR", "INVALID_VALUE", "HANDLE_ERROR"])
def test_a_hard_choice_that_hipdnn_does_not_take_is_unsupported_whatever_its_code(
    open_engine, code
):
    variables = {"fail": f"create_execution_plan_ext:{code}"}
    engine = open_engine("hipdnn:MIOPEN_ENGINE", variables=variables)
    with pytest.raises(UnsupportedGraphError, match=rf"MIOPEN_ENGINE does not run this.*{code}"):
        engine.build(ADD, {})


def test_a_code_nobody_knows_is_a_failure(double):
    module = double()
    error = module.Error(module.ErrorCode.OK, "what now")
    error.code = type("Code", (), {"name": "NEWEST_TROUBLE"})()
    with pytest.raises(EngineError, match=r"unknown code \(NEWEST_TROUBLE\): what now"):
        check("Graph.execute", error)


class StrangerError(Exception):
    """An exception that nobody listed."""


@pytest.mark.parametrize(
    "error", [RuntimeError, TypeError, IndexError, OSError, AttributeError, StrangerError]
)
def test_what_the_bindings_raise_becomes_ours_with_function_version_and_cause(error):
    words = r"hipdnn 1\.2\.0: Graph\.execute: .*lost"
    with (
        pytest.raises(EngineError, match=words) as caught,
        foreign_errors("Graph.execute", "1.2.0"),
    ):
        raise error("lost")
    assert isinstance(caught.value.__cause__, error)


def test_too_little_device_memory_is_a_failure_that_says_how_much(open_engine, monkeypatch):
    engine = open_engine()
    monkeypatch.setattr("bench_run.engines.hipdnn.plan.buffer_bytes", lambda _: 1 << 40)
    with pytest.raises(EngineError, match=r"1099511627776 bytes for .*out of memory"):
        engine.plan(engine.build(ADD, {}))


@pytest.mark.parametrize(
    ("failure", "status", "phase"),
    [
        ("build_plans:GRAPH_NOT_SUPPORTED", "unsupported", "plan"),
        pytest.param("build_operation_graph:INVALID_VALUE", "failed", "build", marks=SLOW),
        ("execute:GRAPH_EXECUTION_FAILED", "failed", "first_run"),
        pytest.param("execute:INVALID_VARIANT_PACK", "failed", "first_run", marks=SLOW),
    ],
)
def test_a_failure_is_an_outcome_with_its_phase(release, small_graph, failure, status, phase):
    release("newest", fail=failure)
    document = bench_run.run([str(small_graph)], engine=["hipdnn"], rounds=1, iterations=1)
    outcome = document.cases[0].outcome
    assert (status, phase) == (outcome.status, outcome.phase)
    assert failure.partition(":")[2] in outcome.reason
