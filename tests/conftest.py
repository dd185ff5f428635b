"""Shared by all tests: where the repository is, small graphs, an engine that misbehaves."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.detection import is_hypothesis_test

from bench_run.worker import life as start
from tests.conformance.opening import absence
from tests.support import examples, graph_json, register_engines
from tests.warm_commands import WarmCommands, warm_workers

# The same examples in every run, so that a build fails for what it changed; a third of them on each
# commit, all where HYPOTHESIS_PROFILE=thorough (`make test-slow`). To look for new ones:
# HYPOTHESIS_PROFILE=explore make test
settings.register_profile("steady", derandomize=True, deadline=None, max_examples=examples(100))
settings.register_profile("thorough", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# Threads of OpenBLAS that have nothing to do sleep: each process of NumPy would spin for 30 ms of a
# core that other tests want.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell: the commands that tests interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]


def pytest_itemcollected(item):
    """`-m hypothesis` selects them: Hypothesis itself adds the mark when all is selected."""
    if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
        item.add_marker("hypothesis")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Of the tests that need something absent, one is skipped with the reason and the others are
    left out: the summary says once what is not here."""
    told, kept, repeated = set(), [], []
    for item in items:
        reasons = (absence(need) for mark in item.iter_markers("needs") for need in mark.args)
        reason = next(filter(None, reasons), None)
        (repeated if reason in told else kept).append(item)
        if reason is not None:
            told.add(reason)
            item.add_marker(pytest.mark.skip(reason=reason))
    config.hook.pytest_deselected(items=repeated)
    items[:] = kept


def pytest_collection_finish():
    """Thousands of tests and what they import stay: a collection that searched them would take half
    a second, and each that a measurement begins with does."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _few_objects_to_search():
    """What earlier modules imported and left is searched no more: a worker has hundreds of modules,
    and each measurement begins with a collection."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """References that tests keep across runs are theirs, not the user's."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    os.environ.pop("XDG_CACHE_HOME")
    if before is not None:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture
def small_graph(tmp_path):
    """The path of one small graph."""
    path = tmp_path / "small_add.json"
    path.write_text(json.dumps(graph_json()))
    return path


@pytest.fixture
def graph_folder(tmp_path):
    """A folder of four small graphs with different meanings."""
    folder = tmp_path / "graphs"
    folder.mkdir()
    for index in range(4):
        graph = graph_json(f"add_{index}", (4, 8 + index))
        (folder / f"add_{index}.json").write_text(json.dumps(graph))
    return folder


@pytest.fixture(scope="session")
def _hostile_folder(tmp_path_factory):
    """A folder that looks like an installed distribution with an engine in it."""
    folder = tmp_path_factory.mktemp("site")
    for source in (ROOT / "tests" / "hostile").glob("*.py"):
        (folder / source.name).write_text(source.read_text())
    register_engines(folder, hostile="hostile_engine", mortal="mortal_engine")
    return folder


@pytest.fixture
def hostile(_hostile_folder, monkeypatch):
    """Makes the engines `hostile` and `mortal` known to this process and to every worker."""
    monkeypatch.syspath_prepend(str(_hostile_folder))
    here = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{_hostile_folder}{os.pathsep}{here}".rstrip(os.pathsep))


@pytest.fixture
def twins(tmp_path_factory, tmp_path, monkeypatch):
    """The engine with two devices, known to this process and to all that it starts; locks of its
    own."""
    folder = tmp_path_factory.mktemp("site")
    source = ROOT / "tests" / "hostile" / "twin_engine.py"
    (folder / "twin_engine.py").write_text(source.read_text())
    register_engines(folder, twin="twin_engine")
    monkeypatch.syspath_prepend(str(folder))
    paths = [str(folder), str(ROOT), str(ROOT / "schema"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.setenv("BENCH_RUN_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setenv("TWIN_TRACE", str(tmp_path / "trace"))


@pytest.fixture(scope="session", autouse=True)
def _warm_workers():
    """Workers of runs in this process are forked: importing NumPy and the packages takes longer
    than most of them work. `fresh_workers` are not."""
    workers = warm_workers(_reaching_us(os.environ))
    start.start_module, before = workers.start_module, start.start_module
    yield before
    start.start_module = before
    workers.close()


@pytest.fixture
def fresh_workers(_warm_workers, monkeypatch):
    """For tests of how a worker starts, and of what is left of it when it has ended."""
    monkeypatch.setattr(start, "start_module", _warm_workers)


@pytest.fixture(scope="session")
def warm_commands():
    """Runs the command in processes that are forked."""
    commands = WarmCommands(_reaching_us(os.environ))
    yield commands
    commands.close()


@pytest.fixture(scope="session")
def shell(warm_commands, tmp_path_factory):
    """Runs a shell's program whose `bench-run`, `bench-compare` and `python` are forked."""
    binaries = tmp_path_factory.mktemp("shell") / "bin"
    warm_commands.write_scripts(binaries)

    def run(words, folder, timeout=240, **env):
        found = {**os.environ, **env}
        path = f"{binaries}{os.pathsep}{found['PATH']}"
        return subprocess.run(
            words,
            cwd=folder,
            env=_reaching_us({**found, "PATH": path}),
            capture_output=True,
            text=True,
            timeout=timeout,
            pass_fds=warm_commands.descriptors,
        )

    return run


@pytest.fixture
def bench_run_command(tmp_path, warm_commands):
    """Runs the command in a process of its own, in the test's folder: in a fresh one where
    `subprocess.run` is given anything, else in one that is forked."""

    def run(*words, timeout=120, env=None, **options):
        words = [*map(str, words)]
        environment = _reaching_us({**os.environ, **(env or {})})
        if not options:
            return warm_commands.run(words, tmp_path, environment, timeout)
        return subprocess.run(
            [sys.executable, "-m", "bench_run", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
            **options,
        )

    return run


def _reaching_us(environment):
    """The environment, with the packages on the path."""
    paths = [str(ROOT), str(ROOT / "schema"), environment.get("PYTHONPATH", "")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
