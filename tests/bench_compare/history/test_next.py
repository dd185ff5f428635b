"""What to run next works when it is pasted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from bench_schema import files

from tests.bench_compare.history import make
from tests.conftest import ROOT


def slower(document, number, factor):
    """The same run on another day, its times moved."""
    random = np.random.default_rng(number)
    moved = factor * np.exp(random.normal(0, 0.003))
    cases = tuple(
        replace(
            case,
            rounds=tuple(
                replace(
                    one,
                    series={
                        name: np.rint(values * moved).astype(np.int64)
                        for name, values in one.series.items()
                    },
                )
                for one in case.rounds
            ),
        )
        for case in document.cases
    )
    run = replace(document.run, id=f"run {number}", started=make.started(number))
    return replace(document, cases=cases, run=run)


@pytest.mark.slow
def test_every_command_line_that_is_printed_works(tmp_path):
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name, module in (("bench-run", "bench_run"), ("bench-compare", "bench_compare")):
        script = binaries / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        script.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'schema'}",
    }

    def run(command):
        return subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True
        )

    op = "--op 'relu: n=1 c=4 h=8 w=8' --op 'add: n=1 c=4 h=8 w=8'"
    assert run(f"bench-run {op} -e numpy --rounds 2 --iters 6 -q -o first.json").returncode == 0
    first = files.read(tmp_path / "first.json")
    (tmp_path / "results").mkdir()
    for number in range(14):
        made = slower(first, number, 50 if number == 13 else 5 if number >= 7 else 1)
        files.save(tmp_path / "results" / f"{number:02d}.json", made)
    listing = run("bench-compare history results --next 9 --json -")
    commands = [one["command"] for one in json.loads(listing.stdout)["suggestions"]]
    done = {command: run(command) for command in commands}
    assert any("--rerun-from" in command for command in commands)
    assert [] == [
        (c, d.stderr)
        for c, d in done.items()
        if (d.returncode == 1 and "UNDECIDED: " not in d.stdout) or "Trace" in d.stderr
    ]
    assert list((tmp_path / "results").glob("13-again*.json"))
