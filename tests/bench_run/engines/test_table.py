"""The table of engines, third parties' engines, and what `auto` takes."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from bench_run import engines
from bench_run.engines import choose_auto, engine_module, known_names, list_engines
from bench_run.engines.base import Availability, ModuleAbilities
from bench_run.errors import EngineUnavailableError, UsageError
from tests.support import register_engines

MODULE = """
from bench_run.engines.base import Availability, ModuleAbilities
NAME = "stranger"
SUMMARY = "an engine from elsewhere"
INSTALL = "pip install stranger"
def probe():
    return Availability(False, "there is no stranger's device here")
def open(spec, options):
    raise AssertionError
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Makes a distribution with one engine: (entry's name, module's text)."""

    def add(name, text):
        (tmp_path / f"{name}_module.py").write_text(text)
        register_engines(tmp_path, **{name: f"{name}_module"})
        monkeypatch.syspath_prepend(str(tmp_path))

    return add


def row(name):
    return next(row for row in list_engines() if row.name == name)


@pytest.mark.parametrize("name", engines.ENGINES)
def test_every_row_leads_to_a_module_with_all_members(name):
    module = engine_module(name)
    assert name == module.NAME
    assert module.SUMMARY
    assert module.INSTALL
    assert isinstance(module.probe(), Availability)


def test_numpy_can_always_run():
    assert row("numpy").availability.ok


def test_listing_engines_imports_no_gpu_library():
    program = (
        "import sys; from bench_run.engines import list_engines, choose_auto; list_engines();"
        "choose_auto(); print(sorted({'torch', 'cudnn', 'cuda'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "[]" == found.stdout.strip()


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r"no engine 'nothing'; choose from numpy, torch"):
        engine_module("nothing")


def test_an_entry_point_adds_an_engine(install):
    install("stranger", MODULE)
    assert "stranger" in known_names()
    assert "an engine from elsewhere" == row("stranger").summary
    assert "there is no stranger's device here" == row("stranger").availability.reason


@pytest.mark.parametrize("text", ["import no_such_module_anywhere", "x = (", "1 / 0", "{}['a']"])
def test_an_entry_point_that_does_not_load_is_a_row_with_its_error(install, text):
    install("broken", text)
    assert not row("broken").availability.ok
    assert "does not load" in row("broken").availability.reason


def test_an_entry_point_that_is_no_engine_is_a_row_that_says_what_it_lacks(install):
    install("halfway", "NAME = 'halfway'\nSUMMARY = ''\n")
    assert "it lacks INSTALL, probe, open" in row("halfway").availability.reason


def test_naming_a_broken_engine_says_why(install):
    install("broken_too", "import no_such_module_anywhere")
    with pytest.raises(EngineUnavailableError, match="no_such_module_anywhere"):
        engine_module("broken_too")


def test_an_entry_point_cannot_take_the_name_of_our_own_engine(install):
    install("numpy", MODULE)
    assert "an engine from elsewhere" != row("numpy").summary


@pytest.fixture
def machines(monkeypatch):
    """Sets which rows can run, in a table of four."""

    def found(**able):
        names = {name: name for name in ("hipdnn", "cudnn", "torch", "numpy")}
        monkeypatch.setattr(engines, "ENGINES", names)

        def module(name):
            answer = Availability(able.get(name, False), f"{name} says so")
            abilities = ModuleAbilities(probe_id=lambda _: answer)
            return SimpleNamespace(probe=lambda: answer, ABILITIES=abilities)

        monkeypatch.setattr(engines, "import_module", module)

    return found


@pytest.mark.parametrize(
    ("able", "expected"),
    [
        ({"hipdnn": True, "torch": True, "numpy": True}, "hipdnn"),
        ({"cudnn": True, "torch": True, "numpy": True}, "cudnn"),
        ({"torch": True, "numpy": True}, "torch:cuda"),
        ({"numpy": True}, "numpy"),
    ],
)
def test_auto_takes_the_best_engine_that_can_run(machines, able, expected):
    machines(**able)
    assert expected == choose_auto()[0]


def test_auto_names_the_better_ones_that_are_not_here(machines):
    machines(numpy=True)
    reason = choose_auto()[1]
    assert reason.startswith("numpy: numpy says so")
    assert reason.endswith("; not here: hipdnn, cudnn, torch:cuda (bench-run doctor)")


def test_auto_without_any_engine_says_who_tells_why(machines):
    machines()
    with pytest.raises(EngineUnavailableError, match="no engine can run here"):
        choose_auto()
