"""The commands for AMD hardware, typed on the double: the page and the commands agree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench_run.hipdnn.conftest import STATES
from tests.hardware.commands import ROOT, run, sections

QUICK = ("1 ", "2 ")


@pytest.fixture(scope="module")
def typed(tmp_path_factory, doubles):
    """Types a section's commands on a release of the double; one folder for each release."""
    folders, plugins = {}, str(doubles / "hipdnn_plugins" / "engines")

    def type_in(section, release):
        if release not in folders:
            folders[release] = tmp_path_factory.mktemp(release)
        return run(
            section,
            folders[release],
            PYTHONPATH=str(doubles),
            PLUGIN_OLD=plugins,
            PLUGIN_NEW=plugins,
            HIPDNN_DOUBLE_PROFILE=release,
        )

    return type_in


def test_the_page_has_a_command_and_an_expectation_in_every_section():
    found = sections()
    assert len(found) > 3
    assert all(section.commands and section.everywhere for section in found)


@pytest.mark.long
@pytest.mark.parametrize(
    ("release", "section"),
    [
        pytest.param(
            release,
            section,
            marks=()
            if release == "newest" and section.title.startswith(QUICK)
            else pytest.mark.slow,
            id=f"{release} {section.title}",
        )
        for release in STATES
        for section in sections()
    ],
)
def test_a_command_prints_on_the_double_what_the_page_says(typed, release, section):
    done = typed(section, release)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert [] == section.missing(output, hardware=False), output


@pytest.mark.slow
def test_the_script_from_wheels_to_a_verdict_ends_with_one(tmp_path, doubles):
    """Its last three steps, on the double; what it installs was never run."""
    script = str(ROOT / "tests" / "hardware" / "rocm.sh")
    paths = (ROOT, ROOT / "schema", doubles)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "ONLY": "relu 64K"}
    env["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), env["PATH"]))
    words = {"capture_output": True, "text": True, "env": env, "timeout": 280, "cwd": tmp_path}
    done = subprocess.run(["sh", script, "-", "out"], check=False, **words)
    assert (tmp_path / "out" / "hipdnn.tar.gz").exists(), done.stderr
    assert done.returncode in (0, 1), done.stderr  # nothing changed, or too few rounds to say so
    assert 8 == next(row for row in done.stdout.splitlines() if "relu 64K" in row).count("±")
    bare = subprocess.run(["sh", script], check=False, **words)
    assert (1, True) == (bare.returncode, "NOT YET RUN ON HARDWARE" in bare.stderr)
