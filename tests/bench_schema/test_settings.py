"""The table of settings: what its rows give, shown with a row that no run has."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from bench_schema.document import SCHEMA_VERSION, Settings
from bench_schema.settings import RecordedSettings, as_dataclass, rows, rows_of, setting

from bench_run.commands.usage import entry
from bench_run.options import Options
from bench_run.options.read import flag_values
from tests.conftest import ROOT

NEWEST = ROOT / "schema" / "bench_schema" / "versions" / f"v{SCHEMA_VERSION}.json"


@rows(frozen=True)
class Paused(RecordedSettings):
    pause_s: float = setting(
        0.0, flag="--pause S", section="Conditions", help="rest before rounds", kind="number"
    )


as_dataclass(Paused)


def test_the_rows_are_the_documents_fields_in_its_order():
    schema = json.loads(NEWEST.read_text(encoding="utf-8"))
    fields = list(schema["$defs"]["Settings"]["properties"])
    assert (fields, fields) == (list(rows_of(Settings)), list(asdict(Settings())))


def test_a_row_is_a_field_after_those_of_its_base():
    assert (0.0, "pause_s") == (Paused().pause_s, list(rows_of(Paused))[-1])


def test_a_row_reads_its_flag():
    assert {"pause_s": 1.5} == flag_values({"--pause": "1.5"}, Paused)


def test_a_row_describes_its_flag():
    assert "  --pause S             rest before rounds (default 0)\n" == entry(
        rows_of(Paused)["pause_s"]
    )


def test_a_mapping_is_not_shared_between_values():
    assert Options().knobs is not Options().knobs


def test_settings_that_must_or_should_agree_have_words_of_their_own():
    words = [row.word for row in rows_of(Settings).values() if row.agree != "free"]
    assert len(words) == len(set(words))


TEXTS = [
    ("replay", True, "yes"),
    ("knobs", {"b": "2", "a": "1"}, "a 1, b 2"),
    ("knobs", {}, "none"),
    ("check_budget_s", 0.5, "0.5 s"),
    ("threads", None, None),
]


@pytest.mark.parametrize(("name", "value", "text"), TEXTS)
def test_a_row_says_its_value(name, value, text):
    assert text == rows_of(Settings)[name].text(value)


def test_options_can_be_replaced():
    assert 3 == replace(Options(), rounds=3).rounds
