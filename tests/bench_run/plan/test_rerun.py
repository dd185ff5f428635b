from __future__ import annotations

import json

import pytest
from bench_schema.files import read

import bench_run
from bench_run.errors import UsageError
from bench_run.plan.rerun import read_wanted

QUICK = {"rounds": 1, "iterations": 1, "warmup": 0}


def comparison(document, verdicts):
    """What bench-compare writes, as far as it is read back."""
    cases = [
        {
            "fingerprint": case.graph.fingerprint,
            "verdict": verdict,
            "base": None,
            "other": {"engine": case.engine, "path": case.graph.path},
        }
        for case, verdict in zip(document.cases, verdicts, strict=True)
    ]
    return {"kind": "bench-compare", "cases": cases}


@pytest.fixture
def compared(graph_folder, tmp_path):
    document = bench_run.run([str(graph_folder)], engine=["numpy"], **QUICK)
    path = tmp_path / "compare.json"
    path.write_text(json.dumps(comparison(document, ["same", "slower", "unclear", "faster"])))
    return document, path


def test_only_slower_and_unclear_cases_are_measured_again(compared, tmp_path):
    document, path = compared
    again = bench_run.run([], rerun_from=str(path), output=str(tmp_path / "b.json"), **QUICK)
    expected = {document.cases[1].graph.name, document.cases[2].graph.name}
    assert expected == {case.graph.name for case in again.cases}
    assert len(read(tmp_path / "b.json").cases) == 2


def test_a_comparison_with_nothing_open_is_said(compared):
    document, path = compared
    path.write_text(json.dumps(comparison(document, ["same"] * 4)))
    with pytest.raises(UsageError, match="no case is slower or unclear"):
        read_wanted(str(path))


@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "other"}'])
def test_another_file_is_refused(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="--rerun-from"):
        read_wanted(str(path))


def test_a_case_is_open_whatever_its_engine_is_called_now(compared):
    _, path = compared
    record = json.loads(path.read_text())
    for case in record["cases"]:
        case["other"]["engine"] = "numpy+device=3@/elsewhere"
    path.write_text(json.dumps(record))
    again = bench_run.run([], engine=["numpy"], rerun_from=str(path), **QUICK)
    assert ["add_1", "add_2"] == sorted(case.graph.name for case in again.cases)


@pytest.mark.needs("torch:cpu")
def test_a_case_of_another_engine_that_is_settled_is_not_open(compared):
    _, path = compared
    record = json.loads(path.read_text())
    for case in list(record["cases"]):
        other = {**case["other"], "engine": "torch"}
        record["cases"].append({**case, "verdict": "same", "other": other})
    path.write_text(json.dumps(record))
    with pytest.raises(UsageError, match="none of its cases"):
        bench_run.run([], engine=["torch"], rerun_from=str(path), **QUICK)
