"""Documents of `bench-run`, and what becomes of them elsewhere, are compared case by case."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench_schema import files

import bench_run
from bench_compare.cli import main
from bench_compare.comparison.compare import compare
from bench_compare.model import Side, Source
from bench_compare.policy import Policy
from bench_run.cli import main as run_command
from tests.conftest import graph_json

QUICK = {"rounds": 3, "iterations": 6, "warmup": 0, "reference": "none"}
STORED = Path(__file__).resolve().parents[2] / "data" / "documents"
NAMES = ["add_0", "add_1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("same") / "graphs"
    made.mkdir()
    for index, name in enumerate(NAMES):
        (made / f"{name}.json").write_text(json.dumps(graph_json(name, (4, 8 + index))))
    return made


@pytest.fixture(scope="module")
def measured(folder):
    """Documents by the engines they were measured on."""
    known = {}

    def run(*engines):
        if engines not in known:
            known[engines] = bench_run.run([str(folder)], engine=list(engines), **QUICK)
        return known[engines]

    return run


def renamed(document, keys, **facts):
    """The document with other keys of its engines, and facts of them."""
    engines = tuple(
        replace(one, key=keys.get(one.key, one.key), **facts) for one in document.engines
    )
    cases = tuple(replace(c, engine=keys.get(c.engine, c.engine)) for c in document.cases)
    return replace(document, engines=engines, cases=cases)


def joined(*documents):
    """Engines and cases of several in one."""
    cases = [replace(c, id=f"{n} {c.id}") for n, d in enumerate(documents) for c in d.cases]
    engines = tuple(engine for d in documents for engine in d.engines)
    return replace(documents[0], engines=engines, cases=tuple(cases))


def compared(base, other):
    other = replace(other, run=replace(other.run, id="another run"))
    sides = [
        Side(name, (Source(f"{name}.json", one, "bench"),), tuple(e.key for e in one.engines))
        for name, one in (("base", base), ("other", other))
    ]
    return compare(sides[0], sides[1:], Policy())


def met(comparison):
    """Names of graphs and keys of the engines of all pairs."""
    return [
        (one.name, one.base.engine, one.other.engine)
        for one in comparison.cases
        if one.base is not None and one.other is not None
    ]


def told(comparison):
    return {one.name: (one.base, one.other) for one in comparison.differences}


# --- one engine on each side ---


@pytest.mark.needs("torch:cpu")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "other"),
    [
        ("torch", "torch:cpu"),
        ("numpy", "torch:cpu"),
        ("torch:cpu+threads=1", "torch:cpu"),
    ],
)
def test_each_graph_meets_itself_on_another_engine_and_the_header_says_so(measured, base, other):
    comparison = compared(measured(base), measured(other))
    names = [one.partition("+threads")[0] for one in (base, other)]
    sentence = f"engines are compared: {names[0]} against {names[1]}"
    assert [(name, base, other) for name in NAMES] == met(comparison)
    assert (names[0] != names[1]) == (sentence in comparison.warnings)


@pytest.mark.long
@pytest.mark.parametrize(
    "engine",
    ["numpy", pytest.param("torch:cpu", marks=[pytest.mark.needs("torch:cpu"), pytest.mark.slow])],
)
def test_threads_of_the_engine_are_a_difference_that_must_agree(measured, engine):
    comparison = compared(measured(f"{engine}+threads=1"), measured(engine))
    assert ("1", "not set") == told(comparison)["threads of the engine"]
    assert "threads of the engine" == comparison.differences[0].name


@pytest.mark.parametrize(
    ("base", "other"),
    [
        ("cudnn+device=0", "cudnn+device=1"),
        ("hipdnn:A@/old/plugin.so", "hipdnn:A@/new/plugin.so"),
        ("cudnn", "cudnn math=tf32"),
        ("cudnn:plan=5", "cudnn+device=3"),
        ("cudnn", "torch"),
    ],
)
def test_keys_that_differ_hide_no_pair(measured, base, other):
    plain = measured("numpy")
    keys = [renamed(plain, {"numpy": key}) for key in (base, other)]
    assert [(name, base, other) for name in NAMES] == met(compared(*keys))


def test_a_circumstance_is_no_part_of_the_name(measured):
    plain = measured("numpy")
    comparison = compared(*(renamed(plain, {"numpy": f"h:A@/{name}"}) for name in ("old", "new")))
    assert {"h:A"} == {one.engine for one in comparison.cases}


# --- several engines on a side ---


def on_devices(document, *places):
    """As ``--device`` writes it: each engine once for each (index, unit)."""
    return joined(
        *(
            renamed(
                document,
                {"numpy": f"cudnn+device={index}"},
                device=unit,
                device_kind="NVIDIA H200",
                device_index=index,
            )
            for index, unit in places
        )
    )


def test_one_device_meets_its_own_of_all(measured):
    every = on_devices(measured("numpy"), (0, "GPU-a"), (1, "GPU-b"))
    single = renamed(measured("numpy"), {"numpy": "cudnn"}, device="GPU-b", device_index=1)
    expected = [(name, "cudnn", "cudnn+device=1") for name in NAMES]
    assert expected == met(compared(single, every))


def test_all_devices_of_two_hosts_meet_in_their_order(measured):
    hosts = [on_devices(measured("numpy"), (0, f"{n}-a"), (1, f"{n}-b")) for n in (1, 2)]
    comparison = compared(*hosts)
    keys = [f"cudnn+device={index}" for index in (0, 1) for _ in NAMES]
    assert [(key, key) for key in keys] == [pair[1:] for pair in met(comparison)]
    assert ("1-a and 1-b", "2-a and 2-b") == told(comparison)["device unit"]


@pytest.mark.needs("torch:cpu")
@pytest.mark.slow
def test_of_two_engines_the_one_of_that_name_meets(measured):
    both = measured("numpy", "torch:cpu")
    single = renamed(measured("torch:cpu"), {"torch:cpu": "torch"})
    expected = [(name, "torch:cpu", "torch") for name in NAMES]
    assert sorted(expected) == sorted(met(compared(both, single)))


def test_two_builds_in_turn_meet_the_build_of_their_path(measured):
    plain = measured("numpy")
    builds = [renamed(plain, {"numpy": f"hipdnn:A@/{name}"}) for name in ("old", "new")]
    expected = [(name, "hipdnn:A@/new", "hipdnn:A@/new") for name in NAMES]
    assert expected == met(compared(joined(*builds), builds[1]))


# --- tuned plans ---


@pytest.fixture(scope="module")
def tuned(folder, tmp_path_factory):
    """Paths of a plain document, and of one on the winners of a record, which is made to choose
    another type."""
    home = tmp_path_factory.mktemp("tuned")
    space = ["--space", "dtype=half"]
    quick = ["--rounds", "2", "--iters", "4", "-q"]
    graphs, record = str(folder), home / "tuned.json"
    words = ["--engine", "numpy", *space, *quick, "-o", str(record)]
    assert 0 == run_command(["tune", graphs, *words])
    tree = json.loads(record.read_bytes())
    for entry in tree["tuned"]["entries"]:
        variants = [candidate["case_variant"] for candidate in entry["candidates"]]
        entry["winner"] = variants.index({"dtype": "half"})
        entry["candidates"][entry["winner"]] |= {"status": "ok", "case": None}
    record.write_text(json.dumps(tree))
    paths = [home / "plain.json", home / "with.json"]
    for path, more in zip(paths, (["--engine", "numpy"], ["--tuned", str(record)]), strict=True):
        assert 0 == run_command([graphs, *more, *quick, "--reference", "none", "-o", str(path)])
    return paths


@pytest.mark.long
def test_a_tuned_document_meets_the_plain_one(tuned):
    comparison = compared(*map(files.read, tuned))
    assert [(name, "numpy", "numpy") for name in NAMES] == met(comparison)
    assert [{}] * len(NAMES) == [dict(one.variant) for one in comparison.cases]
    assert ("default", "tuned") == told(comparison)["plan"]


@pytest.mark.long
def test_the_command_compares_a_tuned_document_with_the_plain_one(tuned, capsys):
    main([*map(str, tuned), "--all", "--json", "-"])
    cases = json.loads(capsys.readouterr().out)["cases"]
    sides = [(case["name"], case["base"]["variant"], case["other"]["variant"]) for case in cases]
    assert [(name, {}, {"dtype": "half"}) for name in NAMES] == sides


# --- stored documents ---


@pytest.mark.parametrize("name", ["v1.json", "v2.json"])
def test_stored_documents_meet_themselves_under_other_circumstances(name):
    stored = files.read(STORED / name)
    stored = replace(stored, cases=stored.cases[:5])  # the others are there twice
    keys = {one.key: f"{one.key.partition('@')[0]}+device=7@/else" for one in stored.engines}
    moved = renamed(stored, keys, device="GPU-else")
    expected = [(c.graph.name, c.engine, keys[c.engine]) for c in stored.cases]
    assert expected == met(compared(stored, moved))


def test_two_units_of_one_host_are_compared_and_told_apart():
    paths = [STORED / "two_units" / f"{name}.json.zst" for name in ("solo_1", "solo1_1")]
    comparison = compared(*map(files.read, paths))
    assert all(one.base is not None and one.other is not None for one in comparison.cases)
    assert "device unit" in told(comparison)
