"""A setting that nothing of a run reads is told in one line, and the table says who reads which."""

from __future__ import annotations

import pytest
from bench_schema.settings import rows_of

import bench_run.options
from bench_run.commands import run as run_command
from bench_run.engines import numpy_engine
from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.options import Options, read
from bench_run.plan.effect import READERS

QUICK = ("--rounds", "1", "--iters", "2", "--warmup", "0")
ACCELERATOR = (
    "no engine of this run is on an accelerator (numpy); it works with cudnn, hipdnn and torch:cuda"
)
CACHES = (
    "no library of these engines keeps a cache (numpy); it works with cudnn, hipdnn, torch:cuda "
    "and torch+compile"
)
PLUGINS = "no engine of this run is hipdnn (numpy)"
COMPARISON = "outputs are compared with nothing; it works with another --reference than none"
RECIPES = "it works with --op, which is not given"
SILENT = {
    "--require-idle": ("--require-idle", ACCELERATOR),
    "--duty sustained": ("--duty", ACCELERATOR),
    "--cache-dir caches": ("--cache-dir", CACHES),
    "--warm-caches": ("--warm-caches", CACHES),
    "--plugin-path .": ("--plugin-path", PLUGINS),
    "--plugin-mode additive": ("--plugin-mode", PLUGINS),
    "--hipdnn-prefix .": ("--hipdnn-prefix", PLUGINS),
    "--fresh exec": (
        "--fresh",
        "these workers all start from nothing (numpy, 1 rounds); it works with cudnn and "
        "torch:cuda and several rounds",
    ),
    "--reference none --rtol 0.1": ("--rtol", COMPARISON),
    "--reference none --atol 0.1": ("--atol", COMPARISON),
    "--reference none --tolerance hipdnn": ("--tolerance", COMPARISON),
    "--reference none --check-budget 1": ("--check-budget", COMPARISON),
    "--reference none --mismatches 1": ("--mismatches", COMPARISON),
    "--reference none --reference-cache off": (
        "--reference-cache",
        "only references in float64 are kept; it works with --reference auto or numpy",
    ),
    "--math tf32": (
        "--math",
        "numpy computes in one kind of arithmetic; it works with cudnn, torch and kernels",
    ),
    "--shapes large": ("--shapes", RECIPES),
    "--direction bwd": ("--direction", RECIPES),
    "--save-graphs made": ("--save-graphs", "it works with --op and --miopen-driver, which are "),
    "--sdpa-scale one": ("--sdpa-scale", "no graph of this run has attention that lacks a scale"),
    "--force": ("--force", "it works with -o FILE, and with reports and graphs that are written"),
    "--tuned-mismatch error": ("--tuned-mismatch", "it works with --tuned, which is not given"),
}


def notes_of(done):
    return [line for line in done.stderr.splitlines() if "has no effect" in line]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(words, expected, id=words, marks=[pytest.mark.slow] * (index % 4 > 0))
        for index, (words, expected) in enumerate(SILENT.items())
    ],
)
def test_a_setting_without_effect_is_told_once(bench_run_command, small_graph, words, expected):
    done = bench_run_command(small_graph, "-e", "numpy", *QUICK, *words.split())
    flag, why = expected
    assert (done.returncode, len(notes_of(done))) == (0, 1), done.stderr
    assert notes_of(done)[0].startswith(f"note: {flag} has no effect: {why}")


def test_all_of_them_together_are_told(bench_run_command, small_graph):
    words = " ".join(words for words in SILENT if "cache" not in words)
    words = words.replace("--reference none", "").replace("--save-graphs made", "").split()
    done = bench_run_command(
        small_graph, "-e", "numpy", *QUICK, "--reference", "none", *words, timeout=300
    )
    told = {line.split()[1] for line in notes_of(done)}
    left_out = ("cache", "--save-graphs")  # with that, --force has an effect
    expected = {f for words, (f, _) in SILENT.items() if not any(w in words for w in left_out)}
    assert (done.returncode, expected) == (0, told)


def test_a_verbose_run_without_a_table_is_told_of(bench_run_command, small_graph):
    done = bench_run_command(small_graph, "-e", "numpy", *QUICK, "-v", "--csv", "-")
    assert ["note: --verbose has no effect: no table is shown"] == notes_of(done)


def test_settings_as_usual_and_settings_that_are_read_are_no_matter(bench_run_command, small_graph):
    words = "--duty cool --fresh fork --rtol 0.1 --atol 0.1 --mismatches 2"
    made = ("--op", "relu: dims=2x2", "--shapes", "small")
    done = bench_run_command(small_graph, "-e", "numpy", *QUICK, *words.split(), *made)
    assert (done.returncode, notes_of(done)) == (0, [])


def test_a_reference_of_another_engine_reads_too(bench_run_command, small_graph):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    words = ("--reference", "torch:cpu+compile", "--dry-run", "--cache-dir", "caches")
    done = bench_run_command(small_graph, "-e", "numpy", *QUICK, *words)
    assert (done.returncode, notes_of(done)) == (0, [])


# --- what the column says is true ---


def recording(cls):
    """The class of settings, whose instances note in `seen` which of them are read."""

    seen, fields = set(), set(cls.__dataclass_fields__)

    def note(self, name):
        if name in fields:
            seen.add(name)
        return object.__getattribute__(self, name)

    return type("Recording", (cls,), {"__getattribute__": note, "seen": seen})


@pytest.fixture
def read_in_a_run(small_graph, monkeypatch, tmp_path):
    """Which settings a run on NumPy reads where it is given nothing unusual."""
    kind = recording(Options)

    def options(_):
        return read.checked(kind(graphs=(str(small_graph),), engine=("numpy",), quiet=True))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench_run.options, "read_options", options)
    run_command.answer({})
    return kind.seen


OF_A_READER_THAT_IS_THERE = {"comparison", "float64 reference", "template", "table"}


@pytest.mark.long
def test_every_run_reads_what_the_column_says(read_in_a_run):
    rows = rows_of(Options)
    assert {row.read_by for row in rows.values()} == set(READERS)
    always = {name for name, row in rows.items() if row.read_by == "run"}
    assert always - read_in_a_run == set()


@pytest.mark.long
def test_nothing_but_the_readers_there_reads_the_others(read_in_a_run):
    """`duty`, caches and the like become part of requests that engines are given: see below."""
    rows = rows_of(Options)
    absent = {"recipes", "record"}
    never = {name for name, row in rows.items() if row.read_by in absent}
    assert never & read_in_a_run == set()


BY_ENGINES = {
    "cache_dir": "library caches",
    "vendor_caches": "library caches",
    "plugin_paths": "hipdnn",
    "plugin_mode": "hipdnn",
    "prefix": "hipdnn",
    "math": "arithmetic",
}
"""Options of engines, and the column of the settings that they come from."""


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_an_engine_reads_what_the_column_says(name):
    kind = recording(EngineOptions)
    if name == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
        from bench_run.engines import torch_engine

        engine = torch_engine.open(EngineSpec("torch:cpu", "torch", "cpu"), kind())
    else:
        engine = numpy_engine.open(EngineSpec("numpy", "numpy"), kind())
    engine.close()
    expected = {"arithmetic"} if name == "torch" else set()
    assert expected == {BY_ENGINES[field] for field in kind.seen if field in BY_ENGINES}
