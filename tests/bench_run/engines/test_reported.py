"""What engines report is made plain at the border: whatever it is, a run ends, its document is
valid, and other engines' cases are there."""

from __future__ import annotations

import json

import numpy as np
import pytest
import reporting_engine
from bench_schema.codec import encode
from bench_schema.document import GraphId, Work
from bench_schema.files import read
from bench_schema.journal import read_value
from hypothesis import given, settings
from hypothesis import strategies as st
from reporting_engine import ENGINE_FIELDS, FIELDS, PLAN_FIELDS, VALUES

from bench_run import engines
from bench_run.engines import reported
from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.engines.reported import Reports, describe
from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.graph.make import make_graphs
from bench_run.measure.loop import SamplingBudget
from bench_run.tensors.data import Data
from bench_run.validate.settings import ValidationSettings
from bench_run.worker.main import EngineServer, answer
from bench_run.worker.messages import Open, Refusal, RunCase, Variants
from bench_run.worker.wire import decode_outgoing, encode_reply, read_reply
from tests.support import examples

GRAPH = make_graphs("add: dims=4x8")[0]
GRAPH_ID = GraphId("add", "add.json", "0" * 64, "f", "add", "float")


class Pipe:
    def send(self, _):
        """Announcements."""


def journey(request, reply):
    """What arrives of a reply."""
    return read_reply(decode_outgoing(encode_reply(0, reply)), request)


def run_case(field, value):
    """The answer to a case of an engine that reports this, as it comes out of its process."""
    key = f"reports:{field}={value}"
    server = EngineServer(Pipe())
    asked = Open(EngineSpec(key, "reports", f"{field}={value}"), EngineOptions())
    opening = answer(server, asked)
    case = RunCase(
        case_id="add on it",
        graph=GRAPH,
        graph_id=GRAPH_ID,
        engine=key,
        variant={},
        work=Work(),
        round_index=0,
        position=0,
        load_ns=1,
        data=Data(0),
        validation_settings=ValidationSettings("none", None),
        budget=SamplingBudget(0, 2),
    )
    return journey(asked, opening), journey(case, answer(server, case))


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    module = engines.ThirdParty(
        "reports",
        "",
        "",
        reporting_engine.ABILITIES,
        reporting_engine.probe,
        reporting_engine.open,
    )
    monkeypatch.setattr("bench_run.worker.main.engine_module", lambda _: module)


def check_answers(field, value):
    """They are of classes that are known everywhere, and what a case holds fits a document."""
    opening, answered = run_case(field, value)
    assert not isinstance(opening, Refusal)
    if not isinstance(answered, Refusal):
        case = answered.value
        assert case.id == read_value("case", encode(case), "here").id


BUGS = {
    (field, value)
    for field in ("abilities.devices", "witness", "error", "detail", "unsupported")
    for value in ("property-raises", "property-raises-ours")
}
"""An exception that is not ours, out of a call, ends the process, as bugs do."""
TRIED = [(field, value) for field in FIELDS for value in VALUES if (field, value) not in BUGS]


@given(st.sampled_from(TRIED))
@settings(max_examples=examples(60))
def test_whatever_is_reported_the_answer_is_plain_and_fits_the_document(tried):
    check_answers(*tried)


@pytest.mark.parametrize("value", ["minus-one", "raises", "property-raises"])
def test_a_plan_without_facts_is_measured(value):
    _, answered = run_case("plan.facts", value)
    assert "completed" == answered.value.outcome.status


def test_copies_that_are_no_number_cost_nothing():
    _, answered = run_case("plan.facts.chosen", "copies-in-map")
    assert ("completed", "many") == (
        answered.value.outcome.status,
        answered.value.plan["buffer copies"],
    )


@pytest.mark.slow
@pytest.mark.parametrize("field", FIELDS)
def test_every_value_in_every_field_gives_a_plain_answer(field):
    for name, value in TRIED:
        if name == field:
            check_answers(name, value)


@pytest.mark.parametrize(
    ("value", "bytes_"), [("seven", 7), ("numpy", 7), ("int-subclass", 7), ("none", None)]
)
def test_an_honest_number_of_bytes_is_recorded(value, bytes_):
    _, answered = run_case("plan.facts.workspace_bytes", value)
    assert bytes_ == answered.value.memory.workspace_bytes


def test_a_field_that_a_case_can_do_without_is_left_out_with_a_note():
    _, answered = run_case("plan.facts.workspace_bytes", "minus-one")
    case = answered.value
    note = (
        "reports:plan.facts.workspace_bytes=minus-one: plan.facts.workspace_bytes is -1, "
        "not a whole number of bytes from 0: left out"
    )
    assert ("completed", None, (note,)) == (
        case.outcome.status,
        case.memory.workspace_bytes,
        case.notes,
    )


def test_a_field_that_every_case_needs_costs_the_case():
    opening, answered = run_case("facts.device", "bytes")
    engine = "reports:facts.device=bytes"
    reason = f"{engine}: facts.device is b'bytes', not the name of a device, or cpu"
    assert (reason,) == opening.value.notes
    assert (EngineError, reason) == (type(answered.error), str(answered.error))


def test_numbers_among_the_choices_of_a_plan_are_texts():
    _, answered = run_case("plan.facts.chosen", "int-in-map")
    assert {"plan": "3", "math": "fp32"} == answered.value.plan


def test_surrogates_are_spelled():
    assert r"caf\udce9" == Reports("it").read("facts.id", lambda: "caf\udce9")


@given(st.integers() | st.floats() | st.text() | st.binary() | st.none() | st.booleans())
def test_every_row_that_a_case_can_do_without_reads_or_leaves_out_whatever_there_is(value):
    reports = Reports("it")
    rows = {name: row for name, row in reported.ROWS.items() if not row.is_needed}
    found = {name: reports.read(name, lambda: value) for name in rows if name != "plan.facts"}
    assert found == json.loads(encode(found))
    left_out = {name for name in found if any(f"it: {name} is " in n for n in reports.notes)}
    assert {name: rows[name].otherwise for name in left_out} == {n: found[n] for n in left_out}


def test_no_value_is_described_in_its_own_words():
    words = [describe(value) for value in VALUES.values()]
    assert all(word.isprintable() and len(word) < 100 for word in words)


def test_an_error_of_an_engine_is_one_of_ours_with_plain_words():
    class Own(UnsupportedGraphError):
        def __str__(self):
            raise ValueError

        def __reduce__(self):
            raise ValueError

    found = journey(Variants(GRAPH), Refusal(Own("no"))).error
    assert (UnsupportedGraphError, "") == (type(found), str(found))


def test_an_array_is_no_number():
    with pytest.raises(EngineError, match="of type ndarray"):
        Reports("it").read("stream.elapsed_ns()", lambda: np.arange(3))


@pytest.mark.slow
@pytest.mark.parametrize("field", FIELDS)
def test_a_run_goes_on_whatever_an_engine_reports(hostile, bench_run_command, small_graph, field):
    tried = [value for name, value in TRIED if name == field]
    words = [word for value in tried for word in ("--engine", f"reports:{field}={value}")]
    sampling = ["--rounds", "1", "--iters", "2", "--warmup", "0", "-o", "out.json"]
    done = bench_run_command(small_graph, "--engine", "numpy", *words, *sampling)
    document = read(small_graph.parent / "out.json")
    assert "Traceback" not in done.stderr
    assert (len(tried) + 1, "completed") == (
        len(document.cases),
        document.cases[0].outcome.status,
    )


def test_fields_of_engines_and_plans_are_all_tried():
    tried = {*ENGINE_FIELDS, *PLAN_FIELDS}
    missing = {name for name in reported.ROWS if name.removesuffix("()") not in tried}
    called = {"stream.elapsed_ns()", "stream.correction_ns()", "knob_values()", "witness()"}
    assert set() == missing - called - {"variants()", "plans()", "choices()"}
