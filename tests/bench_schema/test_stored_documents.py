"""A document of every version is read for ever, and uses every field."""

import dataclasses
import json
from typing import get_args, get_type_hints

import numpy as np
import pytest
from bench_schema import codec, document, files
from bench_schema.checks.acceptor import load_schema
from bench_schema.checks.validator import validator
from bench_schema.document import INIT_PHASES, SCHEMA_VERSION, SERIES, Status
from bench_schema.estimate import warmup_cut
from bench_schema.merge import find_device, summaries, with_rates
from bench_schema.rounds import StoredRounds

VERSIONS = range(1, SCHEMA_VERSION + 1)
CLASSES = [
    kind
    for kind in vars(document).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind is not document.Document
]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_stored_document_of_every_version_is_read(stored_path, version):
    path = stored_path.with_name(f"v{version}.json")
    assert files.read(path).schema_version == SCHEMA_VERSION


@pytest.mark.parametrize("version", VERSIONS)
def test_an_ordinary_validator_accepts_the_stored_document(stored_path, version):
    tree = json.loads(stored_path.with_name(f"v{version}.json").read_bytes())
    assert list(validator(version).iter_errors(tree)) == []


def test_the_stored_document_comes_back_value_for_value(stored, stored_tree):
    assert stored_tree() == json.loads(codec.encode(stored))


def test_stored_summaries_are_what_the_samples_give(stored):
    for case in stored.cases:
        recomputed = summaries(case.rounds)
        assert recomputed.keys() == case.summary.keys()
        for name, summary in case.summary.items():
            expected = dataclasses.asdict(summary)
            assert expected == pytest.approx(dataclasses.asdict(recomputed[name]), rel=1e-12)


def test_stored_warm_up_cuts_are_what_the_samples_give(stored):
    for round_ in (round_ for case in stored.cases for round_ in case.rounds):
        found = {name: warmup_cut(samples) for name, samples in round_.series.items()}
        assert dict(round_.cut) == {name: warmup.cut for name, warmup in found.items()}
        assert round_.not_warm == tuple(name for name in found if found[name].not_warm)


def test_stored_rates_are_work_over_the_median(stored):
    case = stored.cases[0]
    device = find_device(stored.machine, stored.engines[0].device)
    rates = dataclasses.asdict(case.achieved)
    assert rates.pop("series") == "device_ns"
    recomputed = dataclasses.asdict(with_rates(case, device).achieved)
    assert rates == pytest.approx({name: recomputed[name] for name in rates})


def test_every_sample_of_the_stored_document_is_an_exact_integer(stored, stored_tree):
    expected = stored_tree()["cases"][0]["rounds"][0]["series"]["device_ns"]
    found = stored.cases[0].rounds[0].series["device_ns"]
    assert (found.dtype, found.tolist()) == (np.int64, expected)


def test_arrays_of_a_document_cannot_be_written_to(stored):
    with pytest.raises(ValueError, match="read-only"):
        stored.cases[0].rounds[0].series["device_ns"][0] = 1


LATER = {
    "Document": {"tuned"},
    "Kernel": {"launch"},
    "GraphId": {"op"},
    "Settings": {"strict", "matched", "cosine"},
    "OutputValidation": {"matched_ratio", "cosine"},
    "Round": {"secret", "checksum", "outside_ns", "extra"},
}
"""Fields that a version got after documents of it were written."""


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_field_of_the_schema_is_a_field_of_the_dataclass(kind):
    definition = load_schema(SCHEMA_VERSION)["$defs"][kind.__name__.removesuffix("Record")]
    names = {field.name for field in dataclasses.fields(kind)}
    assert names == set(definition["properties"])
    assert names - LATER.get(kind.__name__, set()) == set(definition["required"])


def test_a_document_without_what_its_version_got_later_is_read(stored_tree):
    tree = stored_tree()
    del tree["run"]["settings"]["strict"]
    for case in tree["cases"]:
        case["graph"].pop("op", None)
        for each in case["rounds"]:
            del each["secret"], each["checksum"], each["outside_ns"], each["extra"]
        for kernel in case["kernels"]:
            kernel.pop("launch", None)
    document = codec.decode(json.dumps(tree).encode(), "run.json")
    assert {None} == {k.launch for case in document.cases for k in case.kernels}
    assert {None} == {case.graph.op for case in document.cases}
    assert vars(document.run.settings)["strict"] is None


def test_a_field_that_version_1_got_later_is_unknown_where_it_is_left_out(stored_path):
    tree = json.loads(stored_path.with_name("v1.json").read_bytes())
    del tree["engines"][0]["device_index"]
    assert codec.decode(json.dumps(tree).encode(), "run.json").engines[0].device_index is None


def leaves(tree, path=()):
    """Path and value of everything that holds nothing more."""
    items = enumerate(tree) if isinstance(tree, list) else getattr(tree, "items", tuple)()
    found = [leaf for name, value in items for leaf in leaves(value, (*path, name))]
    return found or [(path, tree)]


def test_a_document_of_version_1_knows_all_that_it_knew_and_nothing_else(stored_path):
    old = json.loads(stored_path.with_name("v1.json").read_bytes())
    new = json.loads(codec.encode(files.read(stored_path.with_name("v1.json"))))
    before, after = dict(leaves(old)), dict(leaves(new))
    assert before | {("schema_version",): SCHEMA_VERSION} == {path: after[path] for path in before}
    assert {"None", "[]", "{}"} == {str(after[path]) for path in after.keys() - before.keys()}


def test_names_of_series_phases_and_outcomes_are_those_of_the_schema():
    definitions = load_schema(SCHEMA_VERSION)["$defs"]
    assert set(SERIES) == set(definitions["SeriesName"]["enum"])
    assert set(SERIES) == set(definitions["Series"]["properties"])
    phases = definitions["Case"]["properties"]["init"]["propertyNames"]["enum"]
    assert set(INIT_PHASES) == set(phases)
    statuses = definitions["Outcome"]["properties"]["status"]["enum"]
    assert set(get_args(Status)) == set(statuses)


def filled(value, found):
    """Collect (class, field) of everything that is neither unknown nor empty."""
    if isinstance(value, (tuple, list, StoredRounds)):
        for item in value:
            filled(item, found)
    elif isinstance(value, dict):
        filled(tuple(value.values()), found)
    elif dataclasses.is_dataclass(value):
        for name in (field.name for field in dataclasses.fields(value)):
            item = getattr(value, name)
            if item is not None and (not hasattr(item, "__len__") or len(item)):
                found.add((type(value), name))
            filled(item, found)
    return found


def test_the_stored_document_uses_every_field(stored):
    every = {(kind, name) for kind in CLASSES for name in get_type_hints(kind)}
    assert set() == every - filled(stored, set())


def test_the_stored_document_shows_every_outcome(stored):
    assert set(get_args(Status)) == {case.outcome.status for case in stored.cases}
