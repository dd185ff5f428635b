from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest
from bench_schema.files import read, save

import bench_run
from bench_run.cli import main
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


@pytest.mark.long
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


@pytest.mark.long
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


OPS = ("--op", "relu: n=1 c=4 h=8 w=8", "--op", "add: n=1 c=4 h=8 w=8", "-e", "numpy")


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """A folder that holds ``b.json``, a run of two operators by a command line."""
    monkeypatch.chdir(tmp_path)
    words = ("--rounds", "1", "--iters", "2", "--label", "b", "-o", "b.json", "--csv", "b.csv")
    called(monkeypatch, *OPS, *words)
    (tmp_path / "b.csv").unlink()
    return tmp_path


def called(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["bench-run", *words])
    return main(words)


@pytest.mark.long
def test_a_result_document_is_all_that_a_run_again_needs(measured, monkeypatch):
    assert 0 == called(monkeypatch, "--rerun-from", "b.json", "-o", "again.json")
    first, again = (read(measured / name) for name in ("b.json", "again.json"))
    assert first.run.settings == again.run.settings
    assert ("b", 2) == (again.run.label, len(again.cases))
    assert first.run.id != again.run.id
    assert not (measured / "b.csv").exists()


@pytest.mark.long
def test_a_run_again_can_be_run_again_with_other_settings(measured, monkeypatch):
    called(monkeypatch, "--rerun-from", "b.json", "-o", "again.json", "--rounds", "2")
    assert 0 == called(monkeypatch, "--rerun-from", "again.json", "-o", "c.json", "--label", "c")
    found = read(measured / "c.json")
    assert ("c", 2, 2) == (found.run.label, found.run.settings.rounds, len(found.cases))


@pytest.mark.long
def test_a_repeat_names_the_run_that_it_repeats_and_keeps_its_tags(measured, monkeypatch):
    called(monkeypatch, *OPS, "--rounds", "1", "--iters", "2", "--tag", "build=7", "-o", "t.json")
    called(monkeypatch, "--rerun-from", "t.json", "-o", "again.json")
    first, again = (read(measured / name).run for name in ("t.json", "again.json"))
    assert {"build": "7", "repeats": first.id} == dict(again.tags)
    called(monkeypatch, "--rerun-from", "again.json", "-o", "c.json")
    assert {"build": "7", "repeats": again.id} == dict(read(measured / "c.json").run.tags)
    called(monkeypatch, "--rerun-from", "t.json", "-o", "other.json", "--label", "other")
    assert {"build": "7"} == dict(read(measured / "other.json").run.tags)


@pytest.mark.long
def test_a_document_that_was_merged_of_shards_is_run_again_as_a_whole(measured, monkeypatch):
    for share in ("1", "2"):
        words = ("--shard", f"{share}/2", "--rounds", "1", "--iters", "2", "-o", f"s{share}.json")
        called(monkeypatch, *OPS, *words)
    called(monkeypatch, "merge", "s1.json", "s2.json", "-o", "m.json")
    assert 0 == called(monkeypatch, "--rerun-from", "m.json", "-o", "again.json")
    assert 2 == len(read(measured / "again.json").cases)


@pytest.mark.long
def test_a_run_by_a_configuration_file_is_run_again_by_it(measured, monkeypatch):
    lines = [f"op = {list(OPS[1:4:2])}", 'engine = ["numpy"]', "rounds = 1", "iters = 2"]
    (measured / "c.toml").write_text("\n".join(lines))
    called(monkeypatch, "--config", "c.toml", "-o", "c.json")
    assert 0 == called(monkeypatch, "--rerun-from", "c.json", "-o", "again.json")
    first, again = (read(measured / name) for name in ("c.json", "again.json"))
    assert first.run.settings == again.run.settings
    assert 2 == len(again.cases)


@pytest.mark.long
def test_other_engines_take_the_place_of_all_that_a_document_had(measured, monkeypatch):
    words = ("--a", "numpy", "--b", "numpy+threads=1", "-o", "ab.json")
    assert 0 == called(monkeypatch, "--rerun-from", "b.json", *words)
    found = {case.engine for case in read(measured / "ab.json").cases}
    assert {"numpy", "numpy+threads=1"} == found


@pytest.mark.long
def test_the_record_of_a_comparison_is_all_that_its_open_cases_need(measured, monkeypatch):
    record = comparison(read(measured / "b.json"), ["same", "unclear"])
    record["others"] = [{"documents": [{"path": "b.json"}]}]
    (measured / "open.json").write_text(json.dumps(record))
    assert 0 == called(monkeypatch, "--rerun-from", "open.json", "-o", "again.json")
    (only,) = read(measured / "again.json").cases
    assert only.graph.name.startswith("add")


@pytest.mark.long
def test_a_pair_of_other_engines_measures_the_graphs_that_a_comparison_left_open(
    measured, monkeypatch
):
    record = comparison(read(measured / "b.json"), ["same", "unclear"])
    record["others"] = [{"documents": [{"path": "b.json"}]}]
    (measured / "open.json").write_text(json.dumps(record))
    for a, b in (("numpy", "numpy"), ("numpy+threads=1", "numpy")):
        words = ("--rerun-from", "open.json", "--a", a, "--b", b, "-o", "pair.json", "--force")
        assert 0 == called(monkeypatch, *words)
        cases = read(measured / "pair.json").cases
        assert (2, 1) == (len(cases), len({case.graph.name for case in cases}))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("bench-run", "merge", "x.json"), "bench-run merge wrote it"),
        ((), "another tool wrote it"),
        (("bench-run", "--gone"), "not a command line of today: --gone"),
        (("bench-run", "--rerun-from", "b.json"), "a repeat of itself"),
    ],
)
def test_a_document_that_no_command_line_of_graphs_wrote_is_refused(
    measured, monkeypatch, capsys, command, said
):
    made = read(measured / "b.json")
    save(measured / "b.json", replace(made, run=replace(made.run, command=command)))
    assert 1 == called(monkeypatch, "--rerun-from", "b.json", "-o", "again.json")
    assert said in capsys.readouterr().err
