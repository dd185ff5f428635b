"""What a stranger's engine reports wrongly is one line, or left out where samples are there."""

from __future__ import annotations

import os

import pytest

from tests.support import register_engines

ENGINE = """
from dataclasses import replace
from types import SimpleNamespace
from bench_run.engines import numpy_engine
from bench_run.engines.base import Availability, EngineSpec, ModuleAbilities
NAME, SUMMARY, INSTALL, ABILITIES = "odd", "odd", "none", ModuleAbilities()
def probe():
    return Availability(True, "here")
class Odd:
    def __init__(self, inner, **changes):
        self._inner = inner
        vars(self).update(changes)
    def __getattr__(self, name):
        return getattr(self._inner, name)
def open(spec, options):
    engine = numpy_engine.open(EngineSpec("numpy", "numpy"), options)
    if spec.id == "device":
        return Odd(engine, facts=replace(engine.facts, device=7))
    if spec.id == "nothing":
        return Odd(engine, facts=SimpleNamespace())
    def plan(built):
        made = engine.plan(built)
        return Odd(made, facts=replace(made.facts, workspace_bytes="many"))
    return Odd(engine, plan=plan)
"""


@pytest.fixture
def odd(tmp_path, bench_run_command, small_graph):
    """Runs a graph on the engine ``odd:ID``."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "odd.py").write_text(ENGINE)
    register_engines(tmp_path / "site", odd="odd")
    paths = [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    words = ("--rounds", "1", "--iters", "2", "--warmup", "0", "-v")
    env = {"PYTHONPATH": os.pathsep.join(paths)}
    return lambda id_: bench_run_command(small_graph, "-e", f"odd:{id_}", *words, env=env)


@pytest.mark.parametrize(
    ("id_", "why"),
    [("device", "Expected `str`, got `int` - at `$.device`"), ("nothing", "no attribute 'id'")],
)
def test_facts_of_an_engine_that_do_not_fit_are_one_line(odd, id_, why):
    done = odd(id_)
    (line,) = done.stderr.splitlines()
    assert (1, True, True) == (done.returncode, f"odd:{id_}: facts: " in line, why in line)


def test_facts_of_a_plan_that_do_not_fit_are_left_out_and_its_samples_stay(odd):
    done = odd("plan")
    assert (0, True) == (done.returncode, "`$.workspace_bytes`: left out" in done.stdout)
    assert "passed" in done.stdout
