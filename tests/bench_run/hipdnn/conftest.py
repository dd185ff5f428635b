"""The contract test double in the place of `hipdnn_frontend`, in any of its states."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import pytest

from bench_run.engines import hipdnn
from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import parse_spec
from tests.support import write_two_graphs

DOUBLES = Path(__file__).resolve().parents[2] / "doubles"
MODULE = "hipdnn_frontend"
PLUGIN = "MIOPEN_ENGINE"
STATES = ("sweep", "dlpack", "newest", "attested")
"""Of the bindings, oldest first: what the engine drives."""


def forget():
    for name in [name for name in sys.modules if name.partition(".")[0] == MODULE]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def doubles():
    """Folder that makes the double importable when it is on the path."""
    return DOUBLES


@pytest.fixture
def release(monkeypatch):
    """Puts a state of the double on the path of this process and its workers."""
    monkeypatch.syspath_prepend(str(DOUBLES))
    paths = [str(DOUBLES), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))

    def choose(name="newest", **variables):
        forget()
        monkeypatch.setenv("HIPDNN_DOUBLE_PROFILE", name)
        monkeypatch.setenv("HIPDNN_DOUBLE_WATCHDOG_S", "0.1")
        for key, value in variables.items():
            monkeypatch.setenv(f"HIPDNN_DOUBLE_{key.upper()}", value)

    yield choose
    forget()


@pytest.fixture
def double(release):
    """Imports a state of the double."""

    def load(name="newest", **variables):
        release(name, **variables)
        return importlib.import_module(MODULE)

    return load


@pytest.fixture
def open_engine(release):
    """Opens the engine on a state of the double; closes it after the test."""
    engines = []

    def open_(text="hipdnn", profile="newest", variables=None, **options):
        release(profile, **(variables or {}))
        engines.append(hipdnn.open(parse_spec(text), EngineOptions(**options)))
        return engines[-1]

    yield open_
    for engine in engines:
        engine.close()


@pytest.fixture
def plugin(tmp_path):
    """Writes a plugin into a folder of its own and returns the folder."""

    def write(folder, name="libmiopen_plugin.so", engines=(PLUGIN,), **facts):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        rows = [{"name": engine} if isinstance(engine, str) else engine for engine in engines]
        (place / name).write_text(json.dumps({"engines": rows, **facts}))
        return place

    return write


@pytest.fixture
def two_graphs(tmp_path):
    return write_two_graphs(tmp_path / "graphs")
