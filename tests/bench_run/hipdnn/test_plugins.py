"""What upstream's own test plugins do: one line each for the user, and nothing lost."""

from __future__ import annotations

import pytest
from bench_schema.files import read

from bench_run.cli import main
from tests.bench_run.hipdnn.conftest import PLUGIN

QUICK = ("--rounds", "1", "--iters", "2", "--warmup", "1", "--max-time", "none")


@pytest.fixture
def ran(release, plugin, two_graphs, tmp_path, capfd):
    """Runs both graphs on a plugin; exit code, the document, what was printed and complained."""

    def run(spec="hipdnn", *engines, **facts):
        release()
        folder = plugin("build", engines=engines or (PLUGIN,), **facts)
        output = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        words = [two_graphs, "--engine", f"{spec}@{folder}", *QUICK, "-v", "-o", str(output)]
        code = main(words)
        shown = capfd.readouterr()
        return code, read(output), shown.out, shown.err

    return run


def statuses(document):
    return [case.outcome.status for case in document.cases]


@pytest.mark.long
@pytest.mark.parametrize("name", [None, ""])
def test_an_engine_without_a_name_is_its_number_which_chooses_it(ran, name):
    row = {"name": name, "id": 77}
    code, document, shown, _ = ran("hipdnn:all", row)
    assert (0, ["completed"] * 2) == (code, statuses(document))
    assert 2 == shown.count("engine name: its plugin gives it none; choose it by hipdnn:77")
    assert {"77"} == {case.plan["engine"] for case in document.cases}
    assert 0 == ran("hipdnn:77", row)[0]


def test_an_engine_with_the_name_of_another_id_is_its_number(ran):
    code, document, shown, _ = ran("hipdnn", {"name": "MIOPEN_ENGINE", "id": 78})
    assert (0, {"78"}) == (code, {case.plan["engine"] for case in document.cases})
    words = "its plugin says MIOPEN_ENGINE, the name of another id; choose it by hipdnn:78"
    assert f"engine name: {words}" in " ".join(shown.split())


def test_a_plugin_that_claims_more_than_it_has_is_unsupported_in_its_words(ran):
    fails = {"check_support": "GRAPH_NOT_SUPPORTED: API 1.1.0 without its symbol"}
    code, document, shown, _ = ran(fails=fails)
    assert (1, ["unsupported"] * 2) == (code, statuses(document))
    assert "API 1.1.0 without its symbol" in shown


@pytest.mark.long
def test_a_plugin_of_another_version_is_skipped_and_the_others_stay(ran, plugin):
    plugin("build", name="liba.so", engines=("OTHER_ENGINE",), api="zero")
    assert (0, ["completed"] * 2) == (lambda r: (r[0], statuses(r[1])))(ran("hipdnn:all"))


@pytest.mark.long
def test_an_execution_that_fails_is_a_failure_of_its_cases_alone(ran):
    fails = {"execute": "GRAPH_EXECUTION_FAILED: no code object for this chip"}
    code, document, shown, _ = ran("hipdnn:all", {"name": "BAD", "fails": fails}, "GOOD")
    found = {(case.plan.get("engine"), case.outcome.status) for case in document.cases}
    assert (1, {(None, "failed"), ("GOOD", "completed")}) == (code, found)
    assert "Graph.execute: failed during execution (GRAPH_EXECUTION_FAILED): no code obje" in shown


@pytest.mark.long
def test_an_engine_that_waits_inside_a_gate_is_measured_without_it(ran):
    code, document, shown, _ = ran(waits=["PointwiseAttributes"])
    assert (0, ["completed"] * 2) == (code, statuses(document))
    assert 1 == shown.count("no gate: times hold the host's launch delays")


@pytest.mark.parametrize(("when", "said"), [("load", 0), ("close", 1)])
def test_a_plugin_that_aborts_at_its_end_loses_nothing(ran, when, said):
    """At the process's exit nobody asks it any more; when it is closed one line says so."""
    deed = "abort_at_exit" if when == "load" else "abort"
    code, document, _, complained = ran(misdeed={when: deed})
    assert (0, ["completed"] * 2) == (code, statuses(document))
    assert said == complained.count("its process ended by SIGABRT after its results were in")


@pytest.mark.long
def test_a_graph_that_no_engine_takes_has_an_outcome_among_all(ran):
    code, document, shown, _ = ran("hipdnn:all", types=["MatmulAttributes"])
    assert (0, ["completed", "unsupported"]) == (code, sorted(statuses(document)))
    assert "no engine accepts this graph: Failed to get ranked engine ids" in shown
