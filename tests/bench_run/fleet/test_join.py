"""`bench-run merge`: the shards' cases, what is missing or there twice, where each part ran."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import asdict, replace

import numpy as np
import pytest
from bench_schema import codec, files
from bench_schema.document import Part, Whole
from bench_schema.errors import DocumentError

from bench_run.cli import main
from bench_run.errors import OutputError, UsageError
from bench_run.fleet.join import join_documents
from tests.bench_schema.conftest import DOCUMENTS

QUICK = ("--engine", "numpy", "--rounds", "1", "--iters", "2", "--warmup", "0", "--quiet")


@pytest.fixture(scope="module")
def template():
    document = files.read(DOCUMENTS / "v2.json")
    run = replace(document.run, shard=None, whole=None, notes=(), complete=True)
    run = replace(run, settings=replace(run.settings, rounds=1))
    return replace(document, run=run, parts=())


@pytest.fixture
def part(template, tmp_path):
    """Writes the document of a shard; ``changes`` of its run and machine."""
    case = next(case for case in template.cases if case.rounds)

    def write(shard, names=None, graphs=8, machine=None, engines=None, **changes):
        index, _, count = shard.partition("/")
        whole = Whole(graphs, "ab" * 32)
        mine = range(graphs)[int(index) - 1 :: int(count)] if names is None else names
        cases = tuple(
            replace(
                case,
                id=f"g{n} on {case.engine}",
                validation=None,
                implausible=None,
                graph=replace(case.graph, name=f"g{n}", fingerprint=f"f{n}"),
            )
            for n in mine
        )
        started = f"2026-01-0{index}T00:00:00Z"
        run = replace(template.run, id=f"run {shard}", shard=shard, whole=whole, started=started)
        path = tmp_path / f"{shard.replace('/', '-')}.json"
        files.save(
            path,
            replace(
                template,
                run=replace(run, **changes),
                machine=replace(template.machine, host=f"node{index}", **(machine or {})),
                engines=engines or template.engines,
                cases=cases,
            ),
        )
        return str(path)

    return write


@pytest.fixture
def joined(tmp_path):
    """Merges; gives what was said and the document."""

    def merge(*paths, allow_unlike=False, output="all.json"):
        told = join_documents(paths, str(tmp_path / output), allow_unlike=allow_unlike)
        return told, files.read(tmp_path / output)

    return merge


@pytest.mark.slow
def test_four_shards_that_ran_have_the_cases_of_one_run(graph_folder, tmp_path, capsys):
    for number in (1, 2, 3, 4):
        words = (str(graph_folder), *QUICK, "--shard", f"{number}/4")
        assert 0 == main([*words, "-o", str(tmp_path / f"{number}.json")])
    assert 0 == main([str(graph_folder), *QUICK, "-o", str(tmp_path / "one.json")])
    parts = [str(tmp_path / f"{number}.json") for number in (1, 2, 3, 4)]
    assert 0 == main(["merge", *parts, "-o", str(tmp_path / "all.json")])
    one, merged = (files.read(tmp_path / f"{name}.json") for name in ("one", "all"))

    def known(document):
        return {c.id: (c.graph, c.engine, c.variant, len(c.rounds)) for c in document.cases}

    assert known(one) == known(merged)


def test_a_case_goes_into_the_merged_document_as_it_is(part, joined):
    first, second = part("1/2"), part("2/2")
    _, document = joined(first, second)
    before = [case for path in (first, second) for case in files.read(path).cases]
    assert [*map(codec.encode, before)] == [*map(codec.encode, document.cases)]


def test_the_order_of_the_files_does_not_matter(part, joined):
    paths = [part(f"{index}/3") for index in (1, 2, 3)]
    one = joined(*paths)[1]
    other = joined(*paths[::-1])[1]
    assert codec.encode(one) == codec.encode(other)


def test_each_part_keeps_its_machine(part, joined):
    _, document = joined(part("1/2"), part("2/2"))
    kept = [(each.run.shard, each.machine.host) for each in document.parts]
    assert [("1/2", "node1"), ("2/2", "node2")] == kept


def test_all_shards_make_a_complete_document(part, joined):
    told, document = joined(part("1/2"), part("2/2"))
    assert (True, ()) == (document.run.complete, told.missing)


def test_a_missing_shard_is_named_and_the_document_is_not_complete(part, joined):
    told, document = joined(part("1/3"), part("3/3"))
    assert ("no document of shard 2/3", "3 of 8 graphs are in no document") == told.missing
    assert not document.run.complete


def test_a_merged_document_takes_further_shards(part, joined):
    first = part("1/3"), part("3/3")
    joined(*first, output="two.json")
    earlier = str(first[0]).replace("1-3.json", "two.json")
    told, document = joined(earlier, part("2/3"))
    assert ((), True, 3) == (told.missing, document.run.complete, len(document.parts))


def test_the_hosts_of_a_fleet_are_parts_of_a_run_that_has_ended(part, joined):
    first, second = part("1/2"), part("2/2")
    document = files.read(first)
    begun = replace(document.run, complete=False, finished=None)
    hosts = tuple(Part(begun, replace(document.machine, host=name)) for name in ("a", "b"))
    files.save(first, replace(document, parts=hosts))
    told, merged = joined(first, second)
    assert ((), True, ["a", "b", "node2"]) == (
        told.missing,
        merged.run.complete,
        [each.machine.host for each in merged.parts],
    )


def test_a_document_may_be_merged_into_one_of_its_parts(part, joined, tmp_path):
    first, second = part("1/2"), part("2/2")
    told, document = joined(first, second, output="1-2.json")
    assert (8, 8) == (len(told.cases), len(document.cases))


def test_a_shard_that_did_not_end_is_named(part, joined):
    told, _ = joined(part("1/2"), part("2/2", complete=False, finished=None))
    assert told.missing[0].endswith("2-2.json: the run did not end; continue it with --resume")


def test_a_case_that_lacks_rounds_is_named(part, joined, template):
    settings = replace(template.run.settings, rounds=40)
    paths = [part(shard, graphs=2, settings=settings) for shard in ("1/2", "2/2")]
    told, document = joined(*paths)
    assert told.missing[0].startswith("fewer than 40 rounds: g0 on ")
    assert not document.run.complete


def test_a_case_of_two_documents_is_refused_by_name(part, joined):
    with pytest.raises(UsageError, match=r"1 case is there twice: g0 on \S+ in \S+1-2.json and"):
        joined(part("1/2"), part("2/2", names=(0, 1)))


def test_the_same_file_twice_is_refused(part, joined):
    path = part("1/2")
    with pytest.raises(UsageError, match="named twice"):
        joined(path, path)


def test_a_copy_of_a_part_is_refused(part, joined, tmp_path):
    path = part("1/2")
    (tmp_path / "copy.json").write_bytes((tmp_path / "1-2.json").read_bytes())
    with pytest.raises(UsageError, match="the same run as in"):
        joined(path, str(tmp_path / "copy.json"))


UNLIKE = {
    "another driver": (
        "driver of",
        lambda t: {
            "machine": {"devices": tuple(replace(d, driver="600.1") for d in t.machine.devices)}
        },
    ),
    "another package": ("package numpy", lambda t: {"machine": {"packages": {"numpy": "0.1"}}}),
    "another variable": (
        "variable MIOPEN_X",
        lambda t: {"machine": {"environment": {"MIOPEN_X": "1"}}},
    ),
    "another plugin": (
        "plugin_sha256 of engine",
        lambda t: {"engines": tuple(replace(e, plugin_sha256="0" * 64) for e in t.engines)},
    ),
    "another kind of device": (
        "device_kind of engine",
        lambda t: {"engines": tuple(replace(e, device_kind="A100") for e in t.engines)},
    ),
    "another label": ("label", lambda t: {"label": "other"}),
    "other graphs": ("graphs and engines", lambda t: {"whole": Whole(8, "cd" * 32)}),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_unlike_parts_are_refused_with_what_differs(part, joined, template, name):
    words, change = UNLIKE[name]
    with pytest.raises(UsageError, match=words):
        joined(part("1/2"), part("2/2", **change(template)))


@pytest.mark.parametrize("name", UNLIKE)
def test_unlike_parts_are_merged_when_told_and_the_document_says_so(part, joined, template, name):
    words, change = UNLIKE[name]
    paths = part("1/2"), part("2/2", **change(template))
    _, document = joined(*paths, allow_unlike=True)
    assert any(words in note for note in document.run.notes)


def test_units_of_one_kind_are_not_unlike(part, joined, template):
    engines = tuple(replace(e, device="GPU-other", device_index=3) for e in template.engines)
    machine = {"environment": {**template.machine.environment, "CUDA_VISIBLE_DEVICES": "3"}}
    told, _ = joined(part("1/2"), part("2/2", engines=engines, machine=machine))
    assert () == told.unlike


def test_other_sampling_is_refused_even_when_told(part, joined, template):
    settings = replace(template.run.settings, cache="hot")
    with pytest.raises(UsageError, match="setting cache"):
        joined(part("1/2"), part("2/2", settings=settings), allow_unlike=True)


def test_two_cases_of_one_id_in_unrelated_runs_are_both_kept(part, joined, tmp_path, template):
    first, second = part("1/2", names=(0,)), part("2/2", names=(0,))
    for path, meaning in ((first, "one"), (second, "two")):
        document = files.read(path)
        (case,) = document.cases
        run = replace(document.run, shard=None, whole=None)
        case = replace(case, graph=replace(case.graph, fingerprint=meaning))
        files.save(path, replace(document, run=run, cases=(case,)))
    _, document = joined(first, second)
    name = document.cases[0].id
    assert [name, f"{name} #2"] == [case.id for case in document.cases]


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".json.zst"])
def test_the_output_is_packed_as_its_name_says(part, joined, tmp_path, suffix):
    _, document = joined(part("1/2"), part("2/2"), output=f"all{suffix}")
    plain = joined(str(tmp_path / "1-2.json"), str(tmp_path / "2-2.json"))[1]
    assert codec.encode(plain) == codec.encode(document)


def test_what_cannot_be_written_leaves_nothing_behind(part, tmp_path):
    paths = part("1/2"), part("2/2")
    with pytest.raises(OutputError, match="No such file"):
        join_documents(paths, str(tmp_path / "no" / "all.json"), allow_unlike=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1-2.json", "2-2.json"]


def test_a_damaged_part_leaves_the_output_as_it_was(part, tmp_path):
    first, second = part("1/2"), part("2/2")
    output = tmp_path / "all.json"
    output.write_text("before")
    (tmp_path / "2-2.json").write_text((tmp_path / "2-2.json").read_text()[:-100])
    with pytest.raises(DocumentError, match=r"2-2\.json"):
        join_documents([first, second], str(output), allow_unlike=False)
    assert "before" == output.read_text()


def test_a_date_that_does_not_exist_stops_nothing(part, joined):
    told, _ = joined(part("1/2", started="2026-99-99T99:99:99Z"), part("2/2"))
    assert () == told.missing


@pytest.mark.long
def test_a_merge_holds_one_part_at_a_time(part, tmp_path):
    def peak_of(count):
        paths = [part(f"{index}/{count}", graphs=30 * count) for index in range(1, count + 1)]
        tracemalloc.start()
        join_documents(paths, str(tmp_path / "all.json"), allow_unlike=False)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    assert peak_of(8) < 1.5 * peak_of(2)


EXIT_CODES = {
    "all shards": (("1/2", "2/2"), 0),
    "a shard is missing": (("1/2",), 1),
}


@pytest.mark.parametrize("name", EXIT_CODES)
def test_the_exit_code_is_that_of_the_whole_run(part, tmp_path, capsys, name):
    shards, expected = EXIT_CODES[name]
    paths = [part(shard) for shard in shards]
    assert expected == main(["merge", *paths, "-o", str(tmp_path / "all.json")])


def test_wrong_outputs_in_a_part_are_exit_code_2(part, tmp_path, template, capsys):
    first, second = part("1/2"), part("2/2")
    tree = json.loads((tmp_path / "2-2.json").read_text())
    validation = next(case.validation for case in template.cases if case.validation is not None)
    tree["cases"][0]["validation"] = {**asdict(validation), "status": "failed"}
    (tmp_path / "2-2.json").write_text(json.dumps(tree))
    assert 2 == main(["merge", first, second, "-o", str(tmp_path / "all.json")])


def test_without_an_output_it_says_so(part, capsys):
    assert 1 == main(["merge", part("1/1")])
    assert "bench-run: merge: name the document to write: -o FILE\n" == capsys.readouterr().err


@pytest.mark.long
def test_a_shard_without_graphs_is_a_document_and_exit_code_0(small_graph, tmp_path):
    documents = [tmp_path / f"{index}.json" for index in (1, 2)]
    for index, path in enumerate(documents, 1):
        words = [str(small_graph), *QUICK, "--shard", f"{index}/2", "-o", str(path)]
        assert 0 == main(words)
    assert [0, 1] == sorted(len(files.read(path).cases) for path in documents)


def test_samples_survive_the_merge_exactly(part, joined):
    path = part("1/1")
    (before, *_), (after, *_) = files.read(path).cases, joined(path)[1].cases
    for name, samples in before.rounds[0].series.items():
        assert np.array_equal(samples, after.rounds[0].series[name])


def test_cases_stand_as_in_one_run(part, joined):
    """Graph by graph, whichever shard measured them; what could not be read comes last."""

    def located(path, numbers):
        document = files.read(path)
        graphs = [
            replace(c.graph, path=f"graphs/{n}.json")
            for c, n in zip(document.cases, numbers, strict=True)
        ]
        graphs[-1] = replace(graphs[-1], fingerprint=f"unread:{graphs[-1].path}")
        cases = [replace(c, graph=g) for c, g in zip(document.cases, graphs, strict=True)]
        run = replace(document.run, command=("bench-run", "graphs/"))
        files.save(path, replace(document, cases=tuple(cases), run=run))
        return path

    first = located(part("1/2", names=(1, 4, 5, 0), graphs=7), (1, 4, 5, 0))
    second = located(part("2/2", names=(2, 3, 6), graphs=7), (2, 3, 6))
    _, document = joined(second, first)
    assert ["g1", "g2", "g3", "g4", "g5", "g0", "g6"] == [c.graph.name for c in document.cases]


def test_summaries_are_those_of_the_samples(part, joined):
    path = part("1/1")
    document = files.read(path)
    case = document.cases[0]
    forged = {name: replace(one, median=one.median / 2) for name, one in case.summary.items()}
    changed = (replace(case, summary=forged), *document.cases[1:])
    files.save(path, replace(document, cases=changed))
    _, merged = joined(path)
    assert case.summary == merged.cases[0].summary
