"""What a release that nobody has seen may do otherwise: it measures all the same, or one sentence
names the function and the release."""

from __future__ import annotations

import enum
import sys

import pytest

from bench_run.errors import BenchRunError
from tests.bench_run.hipdnn.conftest import forget
from tests.bench_run.hipdnn.test_mutants import ADD, expect_right, run

NAMED = "hipdnn:MIOPEN_ENGINE"


def replaced(owner, name, make):
    """`owner.name` becomes what `make` makes of it."""

    def patch(monkeypatch, module):
        place = getattr(module, owner) if owner else module
        monkeypatch.setattr(place, name, make(getattr(place, name)))

    return patch


def raising(error):
    return lambda _: lambda *_, **__: (_ for _ in ()).throw(error)


def returning(value):
    return lambda _: lambda *_, **__: value


class Wordless(Exception):
    """As a binding raises it that translates no text."""


MEASURES = {
    "ids without a sign": replaced(
        "Graph", "get_execution_plan_engine_id", lambda f: lambda self: f(self) % 2**64
    ),
    "an engine that is ranked twice": replaced(
        "Graph", "get_ranked_engine_ids", lambda f: lambda *a: [*f(*a), *f(*a)]
    ),
    "ranks without a sign": replaced(
        "Graph", "get_ranked_engine_ids", lambda f: lambda *a: [i % 2**64 for i in f(*a)]
    ),
    "names that raise": replaced("", "engine_id_to_name", raising(IndexError("not found"))),
    "names that are None": replaced("", "engine_id_to_name", returning(None)),
    "a plan without a name": replaced("Graph", "get_plan_name", raising(RuntimeError("no plan"))),
    "is_good as a property": replaced("Error", "is_good", lambda f: property(lambda e: f(e))),
    "a stream as None": replaced("Handle", "get_stream", returning(None)),
    "a stream as an object": replaced(
        "Handle", "get_stream", returning(type("Stream", (), {"__int__": lambda _: 0})())
    ),
    "codes as numbers": replaced("Error", "get_code", returning(0)),
    "another heuristic": replaced(
        "", "HeuristicMode", lambda _: enum.Enum("HeuristicMode", {"INSTANT": 0})
    ),
    "plans that are finalised when they are chosen": replaced(
        "Graph", "build_plans", lambda f: lambda self, *a: f(self, *a) and f(self, *a)
    ),
    "bytes as a buffer": replaced(
        "DeviceBuffer", "copy_to_host", lambda f: lambda self: memoryview(f(self))
    ),
}

SAYS = {
    "a wait without words": (
        replaced("", "hip_stream_synchronize", raising(Wordless())),
        r"0\.8\.0: synchronise: Wordless",
    ),
    "a step without words": (
        replaced("Graph", "validate", raising(Wordless())),
        r"0\.8\.0: Graph\.validate: Wordless",
    ),
    "an execution without words": (
        replaced("Graph", "execute", raising(Wordless())),
        r"0\.8\.0: Graph\.execute: Wordless",
    ),
    "a handle that wants a stream": (
        replaced("", "create_handle", raising(TypeError("incompatible function arguments\nlist"))),
        r"0\.8\.0: create_handle: incompatible function arguments$",
    ),
    "a capsule for a stream": (
        replaced("Handle", "get_stream", returning(object())),
        r"Handle\.get_stream gives a object, from which no pointer",
    ),
    "steps that return nothing": (
        replaced("Graph", "validate", returning(None)),
        r"Graph\.validate returned NoneType where an Error was",
    ),
    "an execution that returns nothing": (
        replaced("Graph", "execute", returning(None)),
        r"Graph\.execute.*NoneType",
    ),
    "steps that return pairs": (
        replaced("Graph", "build_plans", returning((None, 1))),
        r"Graph\.build_plans returned tuple where an Error was",
    ),
    "a workspace of None": (
        replaced("Graph", "get_workspace_size", returning(None)),
        r"0\.8\.0: Graph\.get_workspace_size: ",
    ),
    "a negative workspace": (
        replaced("Graph", "get_workspace_size", returning(-1)),
        r"0\.8\.0: DeviceBuffer of -1 bytes for the workspace: ",
    ),
    "a pointer as a property": (
        replaced("DeviceBuffer", "ptr", lambda f: property(f)),
        r"0\.8\.0: DeviceBuffer\.ptr: 'int' object is not callable",
    ),
    "memory of another library alone": (
        replaced("", "DeviceBuffer", returning(None)),
        r"has no DeviceBuffer\.ptr: a release that this engine",
    ),
    "keys that are tensors": (
        replaced("Graph", "execute", raising(TypeError("execute(): incompatible function argu"))),
        r"0\.8\.0: Graph\.execute: execute\(\): incompatible",
    ),
    "an engine id that is a name": (
        replaced("Graph", "get_execution_plan_engine_id", returning("MIOPEN_ENGINE")),
        r"0\.8\.0: Graph\.get_execution_plan_engine_id: invalid literal",
    ),
    "no types": (
        replaced("", "DataType", lambda _: enum.Enum("DataType", {"F32": 0})),
        r"0\.8\.0 has no data type float, which ",
    ),
}


@pytest.fixture
def altered(double, open_engine, monkeypatch):
    """The double of a release between *middle* and *newest*, altered; it is what engines open."""

    def alter(patch):
        module = double("hard")
        patch(monkeypatch, module)
        monkeypatch.setattr("tests.bench_run.hipdnn.conftest.forget", lambda: None)
        assert sys.modules["hipdnn_frontend"] is module

    yield alter
    forget()


@pytest.fixture
def odd(altered, open_engine):
    """Measures on a release that does one thing otherwise."""

    def measure(patch, spec):
        altered(patch)
        return run(open_engine, spec, "hard", {}, {})

    return measure


@pytest.mark.parametrize(
    ("spec", "oddity"),
    [
        pytest.param(spec, oddity, marks=() if spec == NAMED else pytest.mark.slow)
        for spec in (NAMED, "hipdnn", "hipdnn:all")
        for oddity in MEASURES
        if (spec, oddity) != ("hipdnn:all", "another heuristic")
    ],
)
def test_it_measures_all_the_same(odd, oddity, spec):
    expect_right(*odd(MEASURES[oddity], spec))


@pytest.mark.parametrize("oddity", SAYS)
def test_it_says_in_one_sentence_what_is_otherwise(odd, oddity):
    patch, words = SAYS[oddity]
    with pytest.raises(BenchRunError, match=words) as caught:
        odd(patch, "hipdnn:MIOPEN_ENGINE")
    assert "\n" not in str(caught.value)


def test_ranks_of_another_heuristic_are_not_guessed(odd):
    with pytest.raises(BenchRunError, match=r"no HeuristicMode\.FALLBACK, which hipdnn:all needs"):
        odd(MEASURES["another heuristic"], "hipdnn:all")


def test_a_plan_without_a_workspace_is_given_none(open_engine, plugin):
    spec = f"hipdnn@{plugin('build', workspace_bytes=0)}"
    expect_right(*run(open_engine, spec, "hard", {}, {}))


def test_an_engine_that_is_ranked_twice_is_one_variant(altered, open_engine):
    altered(MEASURES["an engine that is ranked twice"])
    names = [variant["engine"] for variant in open_engine("hipdnn:all", "hard").variants(ADD)]
    assert sorted(set(names)) == sorted(names)
