"""What files beside a graph ask for: device memory, the chip of golden data, claimed engines."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from bench_schema.document import Device
from bench_schema.files import read
from hypothesis import given
from hypothesis import strategies as st

from bench_run.cli import main
from bench_run.errors import GraphError
from bench_run.graph.sources.bundle import Bundle, read_bundle
from bench_run.graph.sources.load import load
from tests.support import graph_json, write_two_graphs

QUICK = ("--rounds", "1", "--iters", "2", "--warmup", "1", "--max-time", "none")
CHIP = Device(
    index=0,
    name="AMD Instinct MI300X",
    uuid=None,
    driver=None,
    arch="gfx942",
    memory_bytes=4096 << 20,
    l2_bytes=None,
    max_sm_clock_mhz=None,
    max_memory_clock_mhz=None,
    power_limit_w=None,
)


@pytest.fixture
def two_graphs(tmp_path):
    return write_two_graphs(tmp_path / "graphs")


@pytest.fixture
def ran(two_graphs, tmp_path, monkeypatch, capfd, root):
    """Runs on hipDNN, with files beside the graphs; exit code, cases by graph and engine, stderr.
    The device is one that says what it is."""
    monkeypatch.setattr("bench_run.runner.bundles.device_named", lambda _: CHIP)
    monkeypatch.setattr("bench_run.runner.bundles.devices", lambda: (CHIP,))
    monkeypatch.setenv("PYTHONPATH", str(root / "tests" / "doubles"))

    def run(*words, **files):
        for name, value in files.items():
            place = tmp_path / "graphs" / f"pointwise_add.{name}.json"
            place.write_text(json.dumps(value))
        output = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        code = main([two_graphs, *(words or ("--engine", "hipdnn:all")), *QUICK, "-o", str(output)])
        cases = {
            (case.graph.path.rpartition("/")[2], case.variant.get("engine", case.engine)): case
            for case in read(output).cases
        }
        return code, cases, capfd.readouterr().err

    return run


def claims(engine="HIPBLASLT_ENGINE", chip="gfx942", platforms=("linux",)):
    return {"version": 1, "claims": {engine: {chip: list(platforms)}}}


ADD, BLAS = "pointwise_add.json", "HIPBLASLT_ENGINE"


@pytest.mark.long
def test_a_claim_that_an_engine_does_not_keep_is_bad_news(ran):
    code, cases, _ = ran(support=claims())
    outcome = cases.pop((ADD, BLAS)).outcome
    assert (2, "failed", "build") == (code, outcome.status, outcome.phase)
    assert outcome.reason.startswith("support is claimed for HIPBLASLT_ENGINE on gfx942, linux (")
    assert "HIPBLASLT_ENGINE does not run this graph; engines that do: MIOPEN" in outcome.reason
    assert {"completed"} == {case.outcome.status for case in cases.values()}


@pytest.mark.long
@pytest.mark.parametrize(
    "told",
    [
        claims("MIOPEN_ENGINE"),
        claims(chip="gfx90a"),
        claims(platforms=("windows",)),
        claims("ELSEWHERE_ENGINE"),
    ],
    ids=["kept", "of another chip", "of another system", "of an engine that is not loaded"],
)
def test_a_claim_that_is_kept_or_of_elsewhere_changes_nothing(ran, told):
    code, cases, _ = ran(support=told)
    assert (0, 5) == (code, len(cases))


@pytest.mark.long
def test_claims_that_nothing_can_hold_are_a_note(ran, monkeypatch):
    monkeypatch.setattr("bench_run.runner.bundles.device_named", lambda _: None)
    code, _, complained = ran(support=claims())
    assert (0, 1) == (code, complained.count("note: support claims are not held: amdsmi does not"))


@pytest.mark.long
@pytest.mark.parametrize("word", [BLAS, "0x79aeb17432d4a22b"])
def test_an_engine_that_is_named_or_numbered_is_held_to_its_claim_too(ran, word):
    code, cases, _ = ran("--engine", f"hipdnn:{word}", support=claims())
    assert (2, "failed") == (code, cases[ADD, f"hipdnn:{word}"].outcome.status)


@pytest.mark.parametrize(
    ("level", "phase", "broken"),
    [
        ("applicability", "build", True),
        ("applicability", "plan", False),
        ("buildable", "plan", True),
        ("buildable", "first_run", False),
        ("full", "first_run", True),
    ],
)
def test_the_level_says_how_far_a_claim_goes(level, phase, broken):
    bundle = read_bundle({"enforcement_level": level}, "a.meta.json", claims(), "a.support.json")
    assert broken == (bundle.breach(BLAS, "gfx942", phase) is not None)


@pytest.mark.long
@pytest.mark.parametrize(("memory_mb", "status"), [(4097, "skipped"), (4096, "completed")])
def test_a_case_that_needs_more_memory_than_the_device_has_is_skipped(ran, memory_mb, status):
    metadata = {"format_version": 1, "minimum_vram_mb": memory_mb}
    _, cases, _ = ran("--engine", "hipdnn", meta=metadata)
    outcome = cases[ADD, "hipdnn"].outcome
    assert status == outcome.status
    if status == "skipped":
        assert "a device of 4097 MiB (minimum_vram_mb); this has 4096" in outcome.reason


@pytest.mark.long
@pytest.mark.parametrize(("chip", "used"), [("gfx90a:sramecc+", False), ("gfx942:xnack-", True)])
def test_golden_data_of_another_chip_are_not_compared_with(ran, two_graphs, tmp_path, chip, used):
    golden = tmp_path / "golden"
    assert 0 == main([two_graphs, "--engine", "numpy", "--write-golden", str(golden), *QUICK])
    for folder in golden.glob("*.golden"):
        folder.rename(tmp_path / "graphs" / folder.name)
    code, cases, complained = ran("--engine", "hipdnn", meta={"gpu_architecture": chip})
    assert (0, not used) == (code, "golden data of gfx90a, which no device here is" in complained)
    assert used == (cases[ADD, "hipdnn"].validation.reference == "golden")


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", ":", "a"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
)


@pytest.mark.long
@given(VALUES, VALUES, VALUES, st.sampled_from(["", "a"]))
def test_whatever_lies_beside_a_graph_is_read_or_refused(memory, chip, engines, case):
    metadata = {"minimum_vram_mb": memory, "gpu_architecture": chip}
    told = {"version": 1, "claims": {"E": engines}}
    with suppress(GraphError):
        found = read_bundle(metadata, "a.meta.json", told, "a.support.json", case)
        assert (True, True) == (found.least_memory_bytes >= 0, found.golden_of != "")


@pytest.mark.parametrize("field", ["minimum_vram_mb", "gpu_architecture", "enforcement_level"])
@pytest.mark.parametrize("value", [[], {}, True, None, 1.5])
def test_a_field_of_another_type_counts_as_absent(field, value):
    assert Bundle() == read_bundle({field: value}, "a.meta.json")


@pytest.mark.parametrize(
    ("metadata", "told", "words"),
    [
        ({"format_version": 2}, None, "a.meta.json: format_version: is 2, expected 1"),
        ({"enforcement_level": "some"}, None, "is 'some', expected applicability or buildable"),
        ({}, {"claims": {}}, "a.support.json: version: is null, expected 1"),
        ({}, {"version": 1}, "a.support.json: claims: is null, expected an object"),
        ({}, claims(platforms=("beos",)), "is 'beos', expected linux or windows"),
    ],
)
def test_files_that_are_none_are_refused_with_the_field(metadata, told, words):
    with pytest.raises(GraphError, match=words):
        read_bundle(metadata, "a.meta.json", told, "a.support.json")


def test_a_sweep_has_one_file_of_claims_for_its_cases(tmp_path):
    rows = [{"cases": ["b"], "support": {"gfx942": ["linux"]}}]

    def loaded(rows):
        files = {
            "graph.template.json": graph_json(),
            "sweep.json": {"version": 1, "cases": [{"id": i, "metadata": {}} for i in "ab"]},
            "support.json": {"version": 1, "claims": {BLAS: rows}},
        }
        for name, value in files.items():
            (tmp_path / name).write_text(json.dumps(value))
        return load([str(tmp_path)])

    report = loaded(rows)
    assert ((), ()) == (report.notes, report.failures)
    assert [{}, {"gfx942": ("linux",)}] == [g.bundle.claims[BLAS] for g in report.graphs]
    assert "lists the case 'b' twice" in str(loaded(rows * 2).failures[0].error)
