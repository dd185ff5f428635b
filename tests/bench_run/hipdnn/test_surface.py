"""The double has what each state of hipDNN's bindings has, and nothing else."""

from __future__ import annotations

import enum
import importlib
import json
import sys
from types import FunctionType

import pytest

from bench_run.engines import hipdnn
from bench_run.engines.base import EngineOptions
from bench_run.engines.hipdnn.loading import OPTIONAL, REQUIRED, first_missing, lookup
from bench_run.engines.hipdnn.loading import load as opening_load
from bench_run.engines.spec import parse_spec
from bench_run.errors import EngineUnavailableError, UnsupportedGraphError
from tests.bench_run.hipdnn.conftest import STATES
from tests.bench_run.hipdnn.surface import STORED, compact, dotted, text_of
from tests.bench_run.hipdnn.test_oddities import ADD, JOBS, expect_right, run

READ = STORED.parents[4] / "shared" / "hipdnn" / "surface.json"
OLDER = json.loads(STORED.read_text())["older"]
SPECIAL = {"__int__", "__index__", "__repr__", "__eq__", "__enter__", "__exit__"}
OF_OBJECT = {"__repr__", "__eq__"}
"""Every class of Python has them."""


def members(module):
    """Dotted names of what a module has: its functions and classes, and what these define."""
    for name, found in vars(module).items():
        if name.startswith("__") or name == "_build":
            continue
        yield name
        if isinstance(found, type) and found.__name__ == name:  # no alias
            names = getattr(found, "__members__", None) or vars(found)
            yield from (
                f"{name}.{member}"
                for member in names
                if member in SPECIAL - OF_OBJECT or not member.startswith("_")
            )


@pytest.mark.skipif(not READ.exists(), reason="the surface as it was read is not here")
def test_the_stored_surface_is_that_which_was_read():
    assert STORED.read_text() == text_of(compact(json.loads(READ.read_text())))


@pytest.mark.parametrize("state", STATES)
def test_the_double_has_every_member_of_the_state_and_no_other(double, state):
    surface = importlib.import_module("hipdnn_frontend.surface") if double(state) else None
    wanted = {n for n in dotted(surface.read(state)) if n.rpartition(".")[2] not in OF_OBJECT}
    assert wanted == set(members(double(state)))


@pytest.mark.parametrize("state", STATES)
def test_a_member_too_many_or_too_few_is_seen(double, state):
    module = double(state)
    whole = set(members(module))
    del module.Graph.validate
    module.Graph.finish = FunctionType(compile("0", "", "eval"), {})
    assert {"Graph.validate", "Graph.finish"} == whole ^ set(members(module))


@pytest.mark.parametrize("state", STATES)
def test_enumerators_have_the_numbers_of_the_bindings(double, state):
    module = double(state)
    codes, notes = module.ErrorCode, module.BehaviorNote
    assert [0, 1, 2, 4] == [
        code.value
        for code in (
            codes.OK,
            codes.INVALID_VALUE,
            codes.HIPDNN_BACKEND_ERROR,
            codes.GRAPH_NOT_SUPPORTED,
        )
    ]
    assert (17, 4) == (len(codes), notes.SUPPORTS_EXECUTION_PLAN_SERIALIZATION.value)


@pytest.mark.parametrize("state", STATES)
def test_the_engine_finds_all_that_it_uses_in_the_states_it_drives(double, state):
    assert first_missing(double(state)) is None


def test_what_only_some_states_have_is_told_of_each(open_engine):
    expected = {"sweep": "no no", "dlpack": "yes no", "newest": "yes no", "attested": "yes yes"}
    for state, words in expected.items():
        assert dict(zip(OPTIONAL, words.split(), strict=True)) == (
            open_engine(profile=state).facts.abilities
        )


@pytest.mark.parametrize("state", OLDER)
def test_an_older_state_is_one_sentence_that_names_what_is_missing(double, state):
    module = double(state)
    with pytest.raises(EngineUnavailableError) as caught:
        hipdnn.open(parse_spec("hipdnn"), EngineOptions())
    missing = str(caught.value).partition(" has no ")[2].partition(": bench-run drives ")[0]
    assert not lookup(module, missing)
    assert missing in dotted_required()
    assert "\n" not in str(caught.value)


def dotted_required():
    whole = [f"{owner}.{name}" if owner else name for owner in REQUIRED for name in REQUIRED[owner]]
    return {*whole, *filter(None, REQUIRED)}


ENGINE = ("/bench_run/engines/hipdnn/", "/bench_run/streams/hip.py")


@pytest.fixture
def used(monkeypatch):
    """Every member of a class that engines which are opened from now on read."""
    found = set()

    def watched(prefix):
        library = opening_load(prefix)
        for name, kind in vars(library.module).items():
            if isinstance(kind, type) and not issubclass(kind, enum.Enum):
                kind.__getattribute__ = noting(kind.__getattribute__, name)
        return library

    def noting(read, owner):
        def noted(self, name):
            file = sys._getframe(1).f_code.co_filename
            if any(part in file for part in ENGINE) and "/tests/" not in file:
                found.add(f"{owner}.{name}")
            return read(self, name)

        return noted

    monkeypatch.setattr("bench_run.engines.hipdnn.opening.load", watched)
    return found


def test_the_engine_uses_what_it_asks_for_and_nothing_else(open_engine, plugin, used, monkeypatch):
    monkeypatch.setattr("bench_run.engines.hipdnn.opening.FLUSH_BYTES", 4096)
    other = (f"hipdnn:MIOPEN_ENGINE@{plugin('build')}", {"cache": "cold"})
    for spec, options in (*JOBS, other):
        expect_right(*run(open_engine, spec, "attested", **options))
    declining = open_engine("hipdnn:HIPBLASLT_ENGINE", "attested")
    with pytest.raises(UnsupportedGraphError):
        declining.build(ADD, {})
    declining.stream.close()
    asked = {name for name in dotted_required() if "." in name}
    enumerators = {"HeuristicMode.FALLBACK", "PluginLoadingMode.ABSOLUTE"}
    enumerators |= {"PluginLoadingMode.ADDITIVE"}
    timing = {f"ExecutionTiming.{name}" for name in ("quality", "elapsed_ms")}
    limits = {"valid_values", "min_value", "max_value", "step"}
    found = {name for name in used if name.rpartition(".")[2] not in limits and "__" not in name}
    assert (asked - enumerators) | {*OPTIONAL} | timing == found
