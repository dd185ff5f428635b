"""The commands for hipDNN of the guide on engines, typed on the double."""

from __future__ import annotations

import re

import pytest

from tests.hardware.commands import ROOT, Section, run

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "bench_run" / "docs" / "engines.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (.*)$", GUIDE, re.MULTILINE)
PRINTED = {
    "--oracle": "left on the table",
    "--a": "Speedup:",
    "autotune": "autotune's winner claims: ",
    "doctor": "run once and wait",
    "sdpa": "Validation: PASSED",
}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_for_hipdnn_works(command, tmp_path, doubles):
    done = run(Section(command, command, (), ()), tmp_path, PYTHONPATH=str(doubles))
    assert done.returncode == 0, done.stdout + done.stderr
    printed = next(words for part, words in PRINTED.items() if part in command)
    assert printed in done.stdout


def test_the_guide_shows_commands_for_hipdnn():
    assert len(PRINTED) == len(COMMANDS)


def test_the_table_of_engines_says_what_hipdnn_was_run_on():
    row = next(line for line in TEXT.splitlines() if line.startswith("| `hipdnn"))
    assert "not yet run on AMD hardware" in row
