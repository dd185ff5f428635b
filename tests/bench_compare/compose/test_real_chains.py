"""Predictions beside chains that run for real on the processor, and one that was made to fail."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bench_schema import files

from bench_compare.cli import main

pytestmark = pytest.mark.slow
"""They measure, so they want a machine to themselves."""

ROOT = Path(__file__).resolve().parents[3]
FLAGS = ("--rounds", "8", "--iters", "12", "--threads", "1", "--reference", "none", "--quiet")
CONV = "conv_fwd: n=4 c=16 h=28 w=28 k=16 r=3 s=3 pad=1"
NET = f"""
output = ["sum:y"]
[[input]]
name = "image"
[[graph]]
id = "conv1"
op = "{CONV}"
tensor = {{ x = "image" }}
[[graph]]
id = "act"
op = "relu: n=4 c=16 h=28 w=28"
tensor = {{ x = "conv1:y" }}
[[graph]]
id = "conv2"
op = "{CONV}"
tensor = {{ x = "act:y" }}
[[graph]]
id = "sum"
op = "add+relu: n=4 c=16 h=28 w=28"
tensor = {{ x = "conv2:y", b = "act:y" }}
"""
VISITS = 4
LOOSE = math.log(1.25)
"""Other work disturbs this machine, if both sides alike: what the prediction misses must be far
less than what is planted, not little."""


def bench_run(folder, *words):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "schema")))}
    command = [sys.executable, "-m", "bench_run", *words, *FLAGS]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def measure(folder, engine):
    """Layers, seams and the chain in the same rounds; a table that says of each convolution a
    quarter of what it took; and one with an engine that takes three times as long for it."""
    (folder / "net.toml").write_text(NET)
    words = ("net.toml", "--chain", "--seams", "--cache", "pass", "-e", engine)
    bench_run(folder, *words, "-o", "net.json")
    document = files.read(folder / "net.json")
    files.save(folder / "lies.json", replace(document, cases=tuple(map(quarter, document.cases))))
    slow = [replace(scaled(c, 3), id=f"{c.id} slow", engine="slow") for c in document.cases]
    engines = (replace(document.engines[0], key="slow"), *document.engines)
    both = replace(document, engines=engines, cases=(*slow, *document.cases))
    files.save(folder / "two.json", both)
    return folder


def scaled(case, factor):
    rounds = tuple(
        replace(one, series={"e2e_ns": (one.series["e2e_ns"] * factor).astype(np.int64)})
        for one in case.rounds
    )
    return replace(case, rounds=rounds)


def quarter(case):
    """Of pairs with a convolution as well: their seams stay about what they were."""
    return scaled(case, 0.25 if "conv" in case.graph.name else 1)


def composed(folder, table, *words):
    """Exit code and the JSON."""
    paths = [str(folder / name) for name in ("net.toml", table)]
    code = main(["compose", *paths, *words, "-q", "--json", str(folder / "out.json")])
    return code, json.loads((folder / "out.json").read_text())


class Visits:
    """Folders with measurements, made when somebody asks for one more. Others work on the machine:
    a right prediction may miss in one visit, a wrong one does in all of them."""

    def __init__(self, make):
        self._make, self._made = make, []

    def __iter__(self):
        for number in range(VISITS):
            if number == len(self._made):
                self._made.append(self._make())
            yield self._made[number]

    def errors(self, table):
        """log(measured / predicted) in each visit."""
        return (off_by(folder, table)[1] for folder in self)


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    return Visits(lambda: measure(tmp_path_factory.mktemp("real"), "numpy"))


def off_by(folder, table):
    """Exit code, and log(measured / predicted) of the chain."""
    code, found = composed(folder, table, "--against", str(folder / "net.json"))
    (check,) = found["checks"]
    return code, check["log_error"]


def test_numpys_chain_is_predicted_from_its_layers_and_seams(visits):
    assert any(abs(error) < LOOSE for error in visits.errors("net.json"))


def test_a_chain_that_takes_longer_than_the_table_says_does_not_hold(visits):
    assert any(
        code == 2 and error > LOOSE for code, error in (off_by(f, "lies.json") for f in visits)
    )


def test_no_layer_is_given_to_an_engine_that_takes_three_times_as_long(visits):
    """Where others work, seams may take more off a visit's layers than these take."""
    answers = (composed(folder, "two.json", "--choose", "time")[1] for folder in visits)
    assert any(
        set(found["chosen"]["choices"].values()) == {"numpy"}
        and (found["baseline_name"], found["ratios"]["time"]["value"] > 2) == ("slow", True)
        for found in answers
        if found["ratios"] is not None
    )


def test_torchs_chain_is_predicted_from_its_layers_and_seams(tmp_path_factory):
    pytest.importorskip("torch")
    visits = Visits(lambda: measure(tmp_path_factory.mktemp("real"), "torch:cpu"))
    assert any(abs(error) < LOOSE for error in visits.errors("net.json"))
