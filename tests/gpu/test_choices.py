"""Which plan of cuDNN runs: by engine and knobs, by name, by place, or each."""

from __future__ import annotations

import pytest

from bench_run.engines.cudnn.plans import Choice, engine_of, is_nameless, knobs_of
from bench_run.graph.format.hipdnn_json import write_graph
from bench_run.graph.make import make_graphs
from tests.conformance.opening import opened

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("engine")]

QUICK = ("--iters", "2", "--rounds", "1", "--warmup", "1")
CONV = "conv_fwd: n=8 c=64 h=28 w=28 k=64 r=3 s=3 pad=1 dtype=half layout=nhwc"
RELU = "relu: n=8 c=64 h=28 w=28 dtype=half layout=nhwc"


@pytest.fixture(scope="module")
def engine():
    with opened("cudnn:all") as engine:
        yield engine


@pytest.fixture(scope="module")
def conv():
    return make_graphs(CONV)[0]


@pytest.fixture
def path(conv, tmp_path):
    """The convolution as a file."""
    path = tmp_path / "conv.json"
    path.write_bytes(write_graph(conv))
    return path


@pytest.fixture(scope="module")
def listed(engine, conv):
    """Names of the plans in the order of their places."""
    return engine._lowered(conv, Choice(every=True)).listed


@pytest.fixture(scope="module")
def adjustable(listed):
    """Listed plans all of whose knobs have names."""
    unique = {name: knobs_of(name) for name in listed}
    found = [name for name, knobs in unique.items() if knobs and not any(map(is_nameless, knobs))]
    assert found
    return found


def knob_words(name):
    return [word for k, v in knobs_of(name).items() for word in ("--knob", f"{k}={v}")]


def outcome(document):
    return document["cases"][0]["outcome"]


def test_a_plan_by_name_is_made_from_its_name_where_that_says_all(engine, conv, adjustable):
    made = [engine._lowered(conv, Choice(name=name)) for name in adjustable[:8]]
    assert [[name] for name in adjustable[:8]] == [built.listed for built in made]


def test_every_listed_plan_is_found_by_its_name(engine, conv, listed):
    for name in dict.fromkeys(listed):
        built = engine._lowered(conv, Choice(name=name))
        assert {name} == {built.listed[place] for place in built.places}


def test_an_engine_of_its_own_choice_lists_and_builds_plans_beside_it(conv):
    with opened("cudnn") as plain:
        names = [variant["plan"] for variant in plain.plans(conv)]
        plan = plain.plan(plain.build(conv, {"plan": names[-1]}))
        chosen = plan.facts.chosen["plan"]
        plan.close()
    assert names[-1] == chosen


def test_engine_and_knobs_of_a_listed_plan_run_just_that_plan(run, path, adjustable):
    name = adjustable[min(3, len(adjustable) - 1)]
    document = run(path, "--engine", f"cudnn:{engine_of(name)}", *knob_words(name), *QUICK)
    case = document["cases"][0]
    assert ("completed", None) == (case["outcome"]["status"], case["outcome"]["reason"])
    assert ("passed", name) == (case["validation"]["status"], case["plan"]["plan"])
    wanted = {key: str(value) for key, value in knobs_of(name).items()}
    assert wanted == document["engines"][0]["knobs"]


def test_a_plan_that_is_made_from_its_engine_and_knobs_is_the_listed_one(engine, conv, adjustable):
    made = []
    for name in adjustable[:8]:
        choice = Choice(engine=engine_of(name), knobs=knobs_of(name))
        made += engine._listed(conv, choice, explicit=True).listed
    meant = [(engine_of(name), knobs_of(name)) for name in made]
    assert [(engine_of(name), knobs_of(name)) for name in adjustable[:8]] == meant


def test_an_engine_alone_runs_a_plan_of_its_own(run, path, adjustable):
    number = engine_of(adjustable[-1])
    case = run(path, "--engine", f"cudnn:{number}", *QUICK)["cases"][0]
    assert number == engine_of(case["plan"]["plan"])
    assert "passed" == case["validation"]["status"]


def test_a_name_runs_that_plan(run, path, adjustable):
    case = run(path, "--engine", f"cudnn:plan={adjustable[0]}", *QUICK)["cases"][0]
    assert adjustable[0] == case["plan"]["plan"]


def test_a_place_is_that_of_the_whole_list(run, path, listed):
    case = run(path, "--engine", "cudnn:index=2", *QUICK)["cases"][0]
    assert (listed[2], "2") == (case["plan"]["plan"], case["plan"]["index"])


def test_a_value_that_the_engine_does_not_take_is_one_line_with_the_range(run, path, adjustable):
    name, knob = adjustable[0], next(iter(knobs_of(adjustable[0])))
    words = ("--engine", f"cudnn:{engine_of(name)}", "--knob", f"{knob}=99999")
    found = outcome(run(path, *words, *QUICK))
    assert "unsupported" == found["status"]
    assert f"{knob}=99999: it takes {knob} " in found["reason"]


def test_a_knob_that_the_engine_does_not_have_names_those_it_has(run, path, adjustable):
    name = adjustable[0]
    words = ("--engine", f"cudnn:{engine_of(name)}", "--knob", "SPLIT_COLS=1")
    reason = outcome(run(path, *words, *QUICK))["reason"]
    assert "it takes no SPLIT_COLS; it takes " in reason
    assert next(iter(knobs_of(name))) in reason


def test_an_engine_that_there_is_not_is_one_line(run, path):
    found = outcome(run(path, "--engine", "cudnn:9999", *QUICK))
    assert "unsupported" == found["status"]
    assert "engine 9999" in found["reason"]


def test_every_plan_is_a_case_that_runs_the_plan_it_is_called_after(run, tmp_path):
    path = tmp_path / "relu.json"
    path.write_bytes(write_graph(make_graphs(RELU)[0]))
    cases = run(path, "--engine", "cudnn:all", *QUICK)["cases"]
    done = [case for case in cases if case["outcome"]["status"] == "completed"]
    assert done
    assert [case["variant"]["plan"] for case in done] == [case["plan"]["plan"] for case in done]
    assert {"passed"} == {case["validation"]["status"] for case in done}


def test_a_listing_tells_places_plans_and_what_the_engine_takes(
    bench_run_command, path, adjustable
):
    engine = f"cudnn:{engine_of(adjustable[0])}"
    text = bench_run_command("--list-engines", path, "--engine", engine).stdout
    said = " ".join(text.split())
    assert f"engine {engine_of(adjustable[0])}, takes " in said
    assert "index " in said
