"""Every export is equal to its golden file, and read by a program that is not ours."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from pathlib import Path

import jsonschema
import pytest

from bench_compare.cli import main
from bench_compare.report.exports import KINDS, TEXTS, shortened

DATA = Path(__file__).parents[2] / "data"
DOCUMENT = DATA / "documents/v3.json"
GOLDEN = DATA / "exports"
SHA256 = hashlib.sha256(DOCUMENT.read_bytes()).hexdigest()


def exported(kind, capsys, *documents):
    assert main(["export", *(documents or (str(DOCUMENT),)), "--to", kind]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("kind", TEXTS)
def test_an_export_is_its_golden_file(kind, capsys):
    text = exported(kind, capsys)
    golden = GOLDEN / f"{kind}.txt"
    if os.environ.get("BENCH_UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


BMF = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {
        "^.{1,1024}$": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {
                        name: {"type": "number"} for name in ("value", "lower_value", "upper_value")
                    },
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
        }
    },
    "additionalProperties": False,
}
"""What Bencher publishes of its format, and forbids more."""
TEXT, NUMBER, TABLE = {"type": "string"}, {"type": "number"}, {"type": "object"}
HUD = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["benchmark", "model", "metric"],
        "properties": {
            "benchmark": {
                "required": ["name"],
                "properties": {"name": TEXT, "mode": TEXT, "dtype": TEXT, "extra_info": TABLE},
                "additionalProperties": False,
            },
            "model": {
                "required": ["name"],
                "properties": {
                    "name": TEXT,
                    "type": TEXT,
                    "backend": TEXT,
                    "origins": {"type": "array", "items": TEXT},
                    "extra_info": TABLE,
                },
                "additionalProperties": False,
            },
            "inputs": TABLE,
            "dependencies": TABLE,
            "metric": {
                "required": ["name", "benchmark_values"],
                "properties": {
                    "name": TEXT,
                    "benchmark_values": {"type": "array", "items": NUMBER, "minItems": 1},
                    "target_value": NUMBER,
                    "extra_info": TABLE,
                },
                "additionalProperties": False,
            },
            "runners": {
                "type": "array",
                "items": {
                    "required": ["name"],
                    "properties": {
                        "name": TEXT,
                        "type": TEXT,
                        "cpu_info": TEXT,
                        "cpu_count": {"type": "integer"},
                        "mem_info": TEXT,
                        "gpu_info": TEXT,
                        "gpu_count": {"type": "integer"},
                    },
                    "additionalProperties": False,
                },
            },
        },
        "additionalProperties": False,
    },
}
ACTION = {
    "type": "array",
    "minItems": 1,
    "items": {
        "required": ["name", "unit", "value"],
        "properties": {"name": TEXT, "unit": TEXT, "value": NUMBER, "range": TEXT, "extra": TEXT},
        "additionalProperties": False,
    },
}


@pytest.mark.parametrize(
    ("kind", "schema"), [("bmf", BMF), ("hud", HUD), ("github-action-benchmark", ACTION)]
)
def test_json_formats_are_as_their_tools_describe_them(kind, schema, capsys):
    checker = jsonschema.Draft202012Validator(schema)
    tree = json.loads(exported(kind, capsys))
    assert [*checker.iter_errors(tree)] == []
    assert [*checker.iter_errors([] if kind != "bmf" else {})] != []


@pytest.mark.parametrize("kind", ["hud", "github-action-benchmark", "openmetrics"])
def test_the_hash_of_the_document_is_carried_along(kind, capsys):
    assert SHA256 in exported(kind, capsys)


def test_openmetrics_is_read_by_the_client_of_prometheus(capsys):
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    text = exported("openmetrics", capsys)
    families = {one.name: one for one in parser.text_string_to_metric_families(text)}
    times = families["bench_time_seconds"]
    assert (times.type, times.unit) == ("gauge", "seconds")
    (first, second) = times.samples
    assert first.labels["device"] == "NVIDIA H200"
    assert (first.value, second.value) == (pytest.approx(4.31442e-5, rel=1e-4), 0.005003)
    assert {one.value for one in families["bench_completed"].samples} == {0.0, 1.0}


def test_labels_survive_quotes_backslashes_and_lines(tmp_path, capsys):
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    name = 'a "b" \\ c\nd'
    tree = {"results": [{"command": name, "mean": 1.0, "times": [1.0, 1.1, 1.2]}]}
    path = tmp_path / "h.json"
    path.write_text(json.dumps(tree))
    families = parser.text_string_to_metric_families(exported("openmetrics", capsys, str(path)))
    times = next(one for one in families if one.name == "bench_time_seconds")
    assert times.samples[0].labels["engine"] == name


@pytest.mark.long
def test_parquet_is_read_by_duckdb(tmp_path, capsys):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    nvbench = str(DATA / "foreign/nvbench_base.json")
    target = tmp_path / "run.parquet"
    assert main(["export", str(DOCUMENT), nvbench, "--to", f"parquet:{target}"]) == 0
    assert "run.samples.parquet" in capsys.readouterr().out
    cases = duckdb.sql(f"select outcome, count(*) from '{target}' group by 1").fetchall()
    assert dict(cases) == {
        "completed": 4,
        "unsupported": 2,
        "failed": 1,
        "crashed": 1,
        "timed out": 1,
        "skipped": 1,
    }
    samples = duckdb.sql(
        f"""select s."case", count(*), median(s.time_ns), any_value(c.time_ns)
        from '{tmp_path}/run.samples.parquet' s join '{target}' c on s."case" = c."case"
        where c.graph like 'matmul%' and s.series = 'device_ns' group by 1"""
    ).fetchall()
    assert [count for _, count, _, _ in samples] == [400, 400]
    for _, _, median, time in samples:
        assert median == pytest.approx(time, rel=1e-2)


def test_the_ledger_is_a_table_of_applicability(capsys):
    rows = list(csv.DictReader(io.StringIO(exported("ledger", capsys))))
    statuses = {row["status"] for row in rows}
    assert statuses == {"success", "skipped", "error"}
    for row in rows:
        assert bool(row["error_message"]) == (row["status"] == "error")
        assert bool(row["skip_reason"]) == (row["status"] == "skipped")
    assert {row["asic"] for row in rows} >= {"sm_90", "gfx942"}


def test_several_formats_are_written_at_once(tmp_path, capsys):
    targets = [tmp_path / "b.json", tmp_path / "m.prom"]
    words = ["--to", f"bmf:{targets[0]}", "--to", f"openmetrics:{targets[1]}"]
    assert main(["export", str(DOCUMENT), *words]) == 0
    said = capsys.readouterr()
    assert all(path.stat().st_size for path in targets)
    assert "7 cases to" in said.out
    assert "5 of 7 cases without a time, left out" in said.err


def test_two_documents_with_one_case_are_refused_where_a_name_has_one_value(tmp_path, capsys):
    copy = tmp_path / "again.json"
    copy.write_bytes(DOCUMENT.read_bytes())
    assert main(["export", str(DOCUMENT), str(copy), "--to", "bmf"]) == 1
    assert "export one document at a time" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--to which format?"),
        (["--to", "xml"], f"no format 'xml'; choose from {', '.join(KINDS)}"),
        (["--to", "parquet"], "--to parquet:results.parquet"),
        (["--to", "bmf", "--to", "hud"], "one format at most goes to stdout"),
        (["--to", f"bmf:{DOCUMENT}"], str(DOCUMENT)),
    ],
)
def test_a_wrong_word_says_what_to_type(words, said, capsys):
    before = DOCUMENT.read_bytes()
    assert main(["export", str(DOCUMENT), *words]) == 1
    assert said in capsys.readouterr().err
    assert DOCUMENT.read_bytes() == before


def test_a_name_that_is_too_long_for_bencher_keeps_its_hash():
    names = {shortened("x" * 2000 + str(number)) for number in range(3)}
    assert len(names) == 3
    assert all(len(name) == 1024 for name in names)
