"""Where a record holds, and what is said where it does not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from bench_schema.document import Device

from bench_run.engines.base import EngineFacts
from bench_run.errors import UsageError
from bench_run.graph.make import make_graphs
from bench_run.options import Options
from bench_run.plan.cases import plan_graph
from bench_run.plan.load import make_graph
from bench_run.plan.tuned import (
    Here,
    default_engine,
    engine_problem,
    environment_problem,
    find_entry,
    read_record,
    remarks,
    tuned_cases,
    variant_case,
)

STORED = Path(__file__).resolve().parents[2] / "data" / "tuning" / "tuned_v3.json"


@pytest.fixture
def record():
    """A record that was made on a GPU."""
    stored = read_record(str(STORED))
    machine = replace(stored.document.machine, devices=(device(),))
    engines = tuple(replace(e, device="GPU-1") for e in stored.document.engines)
    return replace(stored, document=replace(stored.document, machine=machine, engines=engines))


def with_entries(record, *entries):
    return replace(record, tuned=replace(record.tuned, entries=entries))


def device(**changed):
    known = {"index": 0, "name": "NVIDIA H200", "uuid": "GPU-1", "driver": "580.1", "arch": "sm_90"}
    return Device(**{**known, **changed})


def here(*devices, **options):
    return Here({}, devices, Options(**options))


def test_the_same_device_and_driver_are_no_problem(record):
    assert environment_problem(record, here(device())) is None


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ((device(driver="590.2"),), "the record is of driver 580.1, this machine has 590.2"),
        ((device(arch="sm_100"),), "the record is of architecture sm_90, this machine has sm_100"),
        ((device(name="H100"),), "the record is of NVIDIA H200, and the devices here are: H100"),
        ((), "the record is of NVIDIA H200, and the devices here are: none"),
    ],
)
def test_a_record_of_another_device_or_driver_does_not_hold(record, devices, said):
    assert said == environment_problem(record, here(*devices))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, None),
        ({"libraries": {"lib": "2"}}, "the record is of lib 1, here is 2"),
        ({"libraries": {}}, "the record is of lib 1, here is none"),
        ({"libraries": {"lib": "1", "more": "3"}}, "the record is of no more, here is 3"),
        ({"device_kind": "B"}, "the record is of A, this is B"),
        ({"plugin_sha256": "other"}, "the plugin of e is another file than in the record"),
    ],
)
def test_an_engine_holds_with_its_libraries_device_and_plugin(record, changed, said):
    known = replace(
        record.document.engines[0],
        key="e",
        libraries={"lib": "1"},
        device_kind="A",
        plugin_sha256="one",
    )
    facts = EngineFacts(None, {"lib": "1"}, "GPU-1", "A", plugin_sha256="one")
    assert said == engine_problem(known, replace(facts, **changed))


def test_an_engine_that_does_not_open_holds_nothing(record):
    known = replace(record.document.engines[0], key="e")
    assert "the engine e does not open here" == engine_problem(known, None)


def test_another_unit_of_the_kind_gets_a_note_that_asks_for_verify(record):
    found = remarks(record, here(device(uuid="GPU-2"), cache=record.document.run.settings.cache))
    assert (1, True) == (len(found), "another unit" in found[0] and "--verify" in found[0])


def test_of_entries_of_one_graph_the_one_with_its_name_is_taken(record):
    first = record.tuned.entries[0]
    record = with_entries(record, first, replace(first, name="again", reason="other"))
    graph = SimpleNamespace(fingerprint=first.fingerprint, name="again")

    def entry_of(**changed):
        id_ = SimpleNamespace(**{**vars(graph), **changed})
        found = find_entry(record, SimpleNamespace(graph=SimpleNamespace(id=id_)))
        return found and found.reason

    assert ("other", first.reason, None) == (
        entry_of(),
        entry_of(name="new"),
        entry_of(fingerprint="f"),
    )


def test_entries_of_one_graph_with_winners_that_differ_are_told(record):
    first = record.tuned.entries[0]
    other = (first.winner + 1) % len(first.candidates)
    again = replace(first, name="again", winner=other)
    (said,) = remarks(with_entries(record, first, again), here(device(), cache="rotate"))
    assert (
        f"--tuned: {first.name}, again: one graph with 2 winners in the record; that of the "
        "same name is taken, else the first" == said
    )


def test_the_very_unit_gets_no_note(record):
    assert () == remarks(record, here(device(), cache=record.document.run.settings.cache))


def test_another_cache_state_is_told(record):
    found = remarks(record, here(device(), cache="cold"))
    assert "this run has cold" in found[0]


def test_a_record_that_changed_is_read_again(tmp_path):
    path = tmp_path / "tuned.json"
    path.write_bytes(STORED.read_bytes())
    before = read_record(str(path))
    path.write_bytes(STORED.read_bytes().replace(before.tuned.entries[0].name.encode(), b"renamed"))
    assert "renamed" == read_record(str(path)).tuned.entries[0].name


@pytest.mark.parametrize("name", ["absent.json", "."])
def test_what_is_no_readable_file_is_one_line(tmp_path, name):
    with pytest.raises(UsageError, match=r"^--tuned: "):
        read_record(str(tmp_path / name))


def test_the_default_engine_is_that_of_the_entries_defaults(record):
    specs = {engine.key: engine.spec for engine in record.tuned.engines}
    assert specs[record.tuned.entries[0].default.engine] == default_engine(record)


def edited(tmp_path, change):
    """The path of the stored record with another winner of its first entry."""
    tree = json.loads(STORED.read_bytes())
    entry = tree["tuned"]["entries"][0]
    change(entry["candidates"][entry["winner"]])
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(tree))
    return str(path)


@pytest.mark.parametrize(
    "change",
    [lambda winner: winner.update(engine="numpy"), lambda winner: winner["case_variant"].clear()],
    ids=["engine", "variant"],
)
def test_a_winner_that_was_edited_to_another_one_is_refused_with_its_file(tmp_path, change):
    path = edited(tmp_path, change)
    said = f"--tuned: {path}: the winner of small_add was measured as 'small_add on "
    with pytest.raises(UsageError, match=re.escape(said)):
        read_record(path)


def by_one_winner(record, *named):
    """What becomes of cases of one graph, each on an engine in a variant, where the record has a
    winner of it on the engine `known`."""
    graph = plan_graph(make_graph(next(iter(make_graphs("add: n=2 c=3 h=4 w=4")))))
    own = graph.id.fingerprint
    engines = {key: SimpleNamespace(key=key, options=None) for key, _ in named}
    entry = record.tuned.entries[0]
    winner = replace(entry.chosen, fingerprint=own, variant={}, engine="known")
    entry = replace(entry, fingerprint=own, candidates=(winner,), winner=0)
    known = replace(record.document.engines[0], device="cpu", libraries={}, device_kind="A")
    document = replace(record.document, engines=(known,))
    facts = EngineFacts(None, {}, "cpu", "A", plugin_sha256=None)
    return tuned_cases(
        with_entries(replace(record, document=document), entry),
        [variant_case(graph, engines[key], variant) for key, variant in named],
        engines,
        Here({"known": facts}, (), Options()),
    )[0]


def test_two_engines_do_not_run_as_one_winner(record):
    with pytest.raises(UsageError, match=r"would both run as .*: give one engine, on one device"):
        by_one_winner(record, ("known", {}), ("numpy", {}))


def test_all_plans_of_an_engine_are_one_case_of_their_winner(record):
    (case,) = by_one_winner(record, ("known", {"plan": "one"}), ("known", {"plan": "other"}))
    assert {"plan": "near"} == case.variant
