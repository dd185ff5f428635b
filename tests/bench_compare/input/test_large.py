"""Documents that are read in parts say what the ordinary reader says of them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from bench_schema import codec, files
from bench_schema.document import Case, Round, Surroundings
from bench_schema.errors import DocumentError

from bench_compare.input import large, load
from bench_compare.input.large import layout, open_text, pieces
from bench_compare.model import Side
from bench_compare.policy import Policy
from bench_compare.rounds.lazy import LazyRounds
from bench_compare.rounds.table import joined, table_of
from bench_compare.statistics.samples import SampleParts
from tests.bench_compare.build import (
    document,
    gpu_case,
    gpu_document,
    gpu_round,
    gpu_validation,
    round_,
    steady,
)
from tests.bench_compare.report.shown import render


def gpu(label="a", shift=1.0, cases=7):
    random = np.random.default_rng(5)
    beside = Surroundings(0.2, 0.1, 0.0, 1.0, 40, 2600.0, None, (), None)
    made = []
    for number in range(cases):
        rows = steady(random, shift * 20_000.0 * (number + 1), rounds=3)
        rounds = [
            gpu_round(
                n,
                {"device_ns": row, "e2e_ns": row + 9_000 - (n == 2)},
                row[:4],
                cut={"device_ns": number % 3},
                host="box-7",
                device_uuid="GPU-1",
                surroundings=beside if n == 1 else None,
            )
            for n, row in enumerate(rows)
        ]
        made.append(
            gpu_case(
                f'graph {number}, "rounds":[',
                rounds,
                20_000.0 * (number + 1),
                validation=gpu_validation(wrong=number == 3),
            )
        )
    made.append(gpu_case("without a round", (), 1.0, status="failed"))
    return gpu_document(label, made, ["cudnn"], hour=8, driver="570")


@pytest.fixture(params=[1, 3], ids="{} processes".format)
def processes(request, monkeypatch):
    """All files are large, so many processes share them, and their parts are small."""
    monkeypatch.setattr(large, "BLOCK_BYTES", 1 << 13)
    monkeypatch.setattr(load, "LARGE_BYTES", 1)
    monkeypatch.setattr(large, "LEAST_BYTES", 1)
    monkeypatch.setattr(large, "process_count", lambda *_: request.param)
    monkeypatch.setattr("bench_compare.parallel.process_count", lambda *_: request.param)
    return request.param


def saved(folder, name, made):
    path = folder / name
    files.save(path, made)
    return path


def plain(value):
    """With rounds and samples in a form that is compared."""
    return json.loads(codec.encode(value))


def whole(found):
    """The document with rounds that are built."""
    cases = [
        Case(**{f.name: getattr(one, f.name) for f in fields(Case)} | {"rounds": tuple(one.rounds)})
        for one in found.cases
    ]
    return [plain(one) for one in cases], plain(document([], run_id=found.run.id).run), found.run


def test_rounds_that_are_built_late_are_those_of_the_text(tmp_path, processes):
    path = saved(tmp_path, "a.json", gpu())
    (source,), _ = load.load([str(path)])
    assert all(type(case.rounds) is LazyRounds for case in source.document.cases)
    assert whole(files.read(path)) == whole(source.document)


@pytest.mark.parametrize("name", ["a.json.gz", "a.json.zst"])
def test_packed_documents_are_read_in_parts_too(tmp_path, processes, name):
    (source,), _ = load.load([str(saved(tmp_path, name, gpu()))])
    assert type(source.document.cases[0].rounds) is LazyRounds


def outputs(base, other):
    from bench_compare.comparison.compare import compare

    sides = [
        Side(label, (source,), tuple(engine.key for engine in source.document.engines))
        for label, source in (("base", base), ("other", other))
    ]
    return render("json", compare(sides[0], [sides[1]], Policy()))


def test_a_comparison_says_the_same_of_columns_and_of_rounds(tmp_path, processes):
    paths = [saved(tmp_path, "a.json", gpu()), saved(tmp_path, "b.json", gpu("b", 1.08))]
    columns, _ = load.load(map(str, paths))
    rounds = [load.read_source(path) for path in paths]
    assert outputs(*rounds) == outputs(*columns)


def test_facts_and_columns_of_rounds_are_those_of_the_text(tmp_path, processes):
    path = saved(tmp_path, "a.json", gpu())
    (source,), _ = load.load([str(path)])
    expected = table_of(files.read(path).cases)
    assert list(expected.facts) == [case.rounds.facts for case in source.document.cases]


def arrays(value):
    """All that a table or a part of it holds, in order."""
    if isinstance(value, np.ndarray):
        return [value.tolist()]
    if isinstance(value, SampleParts):
        return [one.tolist() for one in value]
    if isinstance(value, dict):
        return [one for name in value for one in [name, *arrays(value[name])]]
    if is_dataclass(value) or isinstance(value, tuple | list):
        parts = [getattr(value, f.name) for f in fields(value)] if is_dataclass(value) else value
        return [one for part in parts for one in arrays(part)]
    return [value]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_tables_of_neighbouring_cases_are_joined_to_that_of_all(size):
    cases = [*gpu().cases, gpu_case("e2e alone", [round_(0, {"e2e_ns": [5] * 9})], 5.0)]
    parts = [table_of(cases[at : at + size]) for at in range(0, len(cases), size)]
    np.testing.assert_equal(arrays(joined(parts)), arrays(table_of(cases)))


CHANGES = {
    "a text for a sample": (("cases", 4, "rounds", 1, "series", "e2e_ns", 3), "7"),
    "a negative sample": (("cases", 4, "rounds", 1, "series", "e2e_ns", 3), -7),
    "a sample beyond 64 bits": (("cases", 4, "rounds", 1, "series", "e2e_ns", 3), 1 << 70),
    "a sample that is no whole number": (("cases", 0, "rounds", 1, "series", "device_ns", 0), 1.5),
    "an unknown series": (("cases", 2, "rounds", 0, "series", "gpu_ns"), [1]),
    "an unknown field": (("cases", 5, "work", "flop"), 1),
    "an unknown field of a round": (("cases", 6, "rounds", 0, "serie"), {}),
    "an index that is there twice": (("cases", 1, "rounds", 2, "index"), 0),
    "an index that is none": (("cases", 1, "rounds", 2, "index"), 1 << 21),
    "a cut beyond the samples": (("cases", 3, "rounds", 2, "cut", "e2e_ns"), 1000),
    "an engine that is not there": (("cases", 3, "engine"), "torch"),
    "a case that is there twice": (("cases", 3, "id"), "0"),
    "a round that is none": (("cases", 3, "rounds", 1), 5),
    "an array in the place of series": (("cases", 3, "rounds", 1, "series"), []),
    "a text in the place of an array": (("cases", 3, "rounds", 1, "series", "e2e_ns"), "[1]"),
    "no number of a checked iteration": (("cases", 3, "rounds", 1, "checks", "iteration", 0), -1),
    "no version": (("schema_version",), 3),
    "parts that are none": (("parts",), [1]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_is_not_valid_is_refused_in_the_words_of_the_ordinary_reader(
    tmp_path, processes, change
):
    tree = plain(gpu())
    path, value = change
    home = tree
    for part in path[:-1]:
        home = home[part]
    home[path[-1]] = value
    file = tmp_path / "a.json"
    file.write_text(json.dumps(tree, separators=(",", ":")))
    with pytest.raises(DocumentError) as expected:
        files.read(file)
    with pytest.raises(DocumentError) as found:
        load.load([str(file)])
    assert str(expected.value) == str(found.value)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" * 400])
@pytest.mark.parametrize("field", ["pid", "executions_per_sample"])
def test_a_number_that_no_double_holds_is_named(tmp_path, processes, number, field):
    path = saved(tmp_path, "a.json", gpu())
    head, tail = path.read_bytes().split(b'"id":"4"')
    old = re.search(rb'"%s":[0-9]+' % field.encode(), tail).group()
    new = b'"%s":%s' % (field.encode(), number.encode())
    path.write_bytes(head + b'"id":"4"' + tail.replace(old, new, 1))
    with pytest.raises(DocumentError, match=rf"cases\[4\]\.rounds\[.\]\.{field}") as expected:
        files.read(path)
    with pytest.raises(DocumentError) as found:
        load.load([str(path)])
    assert str(expected.value) == str(found.value)


def test_of_many_cases_that_are_wrong_the_first_is_named(tmp_path, processes):
    path = saved(tmp_path, "a.json", gpu())
    head, tail = path.read_bytes().split(b'"id":"1"')
    path.write_bytes(head + b'"id":"1"' + tail.replace(b'"pid":', b'"process":'))
    with pytest.raises(DocumentError, match=r"cases\[1\]\.rounds\[2\]: unknown field") as found:
        load.load([str(path)])
    with pytest.raises(DocumentError) as expected:
        files.read(path)
    assert str(expected.value) == str(found.value)


def test_a_wrong_document_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(large, "LEAST_BYTES", 1)
    monkeypatch.setattr(large, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(large, "process_count", lambda *_: 1)
    taken, take = [], large.decode_block
    monkeypatch.setattr(large, "decode_block", lambda *where: taken.append(1) or take(*where))
    path = saved(tmp_path, "a.json", gpu(cases=40))
    path.write_bytes(path.read_bytes().replace(b'"pid":', b'"process":'))
    with pytest.raises(DocumentError):
        large.read_large([path])
    assert [1] == taken


def test_a_process_that_is_lost_with_its_doubts_leaves_them_to_another(tmp_path, monkeypatch):
    path = saved(tmp_path, "a.json", gpu())
    path.write_bytes(path.read_bytes().replace(b'"pid":101,', b'"pid":101,"pid":102,', 1))

    def lose(work, turns, processes, beside):
        """The first turn is taken by a process that is lost, after all the others were done."""
        found = work(0, range(1, turns))
        work(1, [0])
        return [found, None], beside()

    monkeypatch.setattr(large, "LEAST_BYTES", 1)
    monkeypatch.setattr(large, "process_count", lambda *_: 2)
    monkeypatch.setattr(large, "take_turns", lose)
    assert {} == large.read_large([path])


@pytest.mark.parametrize("doubtful", [False, True])
def test_what_a_lost_process_took_is_read_again(tmp_path, processes, monkeypatch, doubtful):
    owner, take = os.getpid(), large.decode_block

    def or_end(*where):
        if os.getpid() != owner:
            os.kill(os.getpid(), 9)
        return take(*where)

    monkeypatch.setattr(large, "decode_block", or_end)
    path = saved(tmp_path, "a.json", gpu(cases=40))
    if doubtful:
        path.write_bytes(path.read_bytes().replace(b'"pid":', b'"process":'))
        with pytest.raises(DocumentError, match=r"cases\[0\]\.rounds\[2\]"):
            load.load([str(path)])
    else:
        (source,), _ = load.load([str(path)])
        assert whole(files.read(path)) == whole(source.document)


def test_a_key_that_is_there_twice_is_refused(tmp_path, processes):
    path = saved(tmp_path, "a.json", gpu())
    path.write_bytes(path.read_bytes().replace(b'"pid":101,', b'"pid":101,"pid":102,', 1))
    with pytest.raises(DocumentError, match="the key 'pid' is there twice"):
        load.load([str(path)])


@pytest.mark.parametrize("cut", [1, 100, 3_000])
def test_a_file_that_is_cut_off_is_refused(tmp_path, processes, cut):
    path = saved(tmp_path, "a.json", gpu())
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(DocumentError, match="the file is cut off"):
        load.load([str(path)])


@pytest.mark.parametrize("indent", [None, 1])
def test_a_text_that_is_laid_out_in_another_way_is_read_all_the_same(tmp_path, processes, indent):
    tree = plain(gpu())
    tree["cases"] = [dict(reversed(case.items())) for case in tree["cases"]]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(tree, indent=indent))
    (source,), _ = load.load([str(path)])
    assert whole(gpu()) == whole(source.document)


@pytest.mark.parametrize("moved", ["run", "machine", "engines"])
def test_fields_of_a_document_may_stand_behind_its_cases(tmp_path, processes, moved):
    tree = plain(gpu())
    order = [name for name in tree if name not in (moved, "parts")] + [moved, "parts"]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({name: tree[name] for name in order}, separators=(",", ":")))
    (source,), _ = load.load([str(path)])
    assert whole(gpu()) == whole(source.document)


def test_borders_are_looked_for_once_where_there_are_none(tmp_path):
    path = saved(tmp_path, "a.json", gpu())
    path.write_bytes(path.read_bytes().replace(b'},{"id":', b'}, {"id":'))
    size, fetch = open_text(path)
    found, fetched = layout(fetch, size), []
    pieces(lambda first, last: fetched.append(last - first) or fetch(first, last), found, 500)
    assert sum(fetched) < 2 * size


@pytest.mark.parametrize("deep", [990, 5_000, 100_000])
def test_values_inside_of_values_without_end_are_refused(tmp_path, processes, deep):
    path = saved(tmp_path, "a.json", gpu())
    deeply = b'"pid":' + b"[" * deep + b"]" * deep + b","
    path.write_bytes(path.read_bytes().replace(b'"pid":101,', deeply, 1))
    with pytest.raises(DocumentError, match=r"depth limit|hundreds of levels|expected integer"):
        load.load([str(path)])


def test_whole_numbers_written_with_a_point_are_integers(tmp_path, processes):
    path = saved(tmp_path, "a.json", gpu())
    path.write_bytes(path.read_bytes().replace(b'"pid":101,', b'"pid":101.0,'))
    (source,), _ = load.load([str(path)])
    assert 101 == source.document.cases[0].rounds[1].pid


def test_the_border_of_two_cases_in_a_name_is_none(tmp_path, processes):
    made = document([gpu_case('},{"id":' * 40, [round_(0, {"e2e_ns": [5] * 9})], 5.0)])
    path = saved(tmp_path, "a.json", made)
    (source,), _ = load.load([str(path)])
    assert '},{"id":' * 40 == source.document.cases[0].graph.name


def test_the_parts_of_a_text_are_all_of_its_cases(tmp_path):
    size, fetch = open_text(saved(tmp_path, "a.json", gpu()))
    found, data = layout(fetch, size), fetch(0, size)
    texts = [fetch(first, last) for first, last in pieces(fetch, found, 4)]
    assert 4 == len(texts)
    assert data == data[: found.first] + b",".join(texts) + data[found.last :]


@pytest.mark.parametrize("how", ["written", "removed"])
def test_rounds_of_a_file_that_was_changed_meanwhile_are_refused(tmp_path, processes, how):
    path = saved(tmp_path, "a.json", gpu())
    (source,), _ = load.load([str(path)])
    path.unlink()
    if how == "written":
        files.save(path, gpu("b"))
    sentence = "cannot be read" if how == "removed" else "changed while it was read"
    with pytest.raises(DocumentError, match=sentence):
        list(source.document.cases[0].rounds)


def test_one_round_can_be_asked_for():
    table = table_of(gpu().cases)
    rounds = LazyRounds(table, 2, 3, lambda place: gpu().cases[place].rounds)
    assert isinstance(rounds[1], Round)
    assert [1, 2] == [one.index for one in rounds[1:]]
    assert [0, 1, 2] == rounds.indices
