"""The index under two processes, on a folder that cannot be written, and beside documents that
come and go."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench_compare.history import index
from tests.bench_compare.history import make
from tests.conftest import ROOT

PROGRAM = (
    "import sys; from bench_compare.cli import main; "
    "sys.exit(main(['history', sys.argv[1], '--json', '-']))"
)


def started(folder):
    paths = f"{ROOT}:{ROOT / 'schema'}"
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": paths},
    )


@pytest.mark.long
def test_two_processes_make_one_index(tmp_path):
    folder = make.archive(tmp_path / "a", builds=30, cases=4)
    found = [process.communicate(timeout=120) for process in (started(folder), started(folder))]
    assert found[0] == found[1]
    assert found[0][1] == b""


def test_a_folder_that_cannot_be_written_is_read_all_the_same(tmp_path):
    folder = make.archive(tmp_path / "a", builds=6, cases=2)
    (folder / index.NAME).mkdir()
    wanted = {path.name: path for path in sorted(folder.glob("*.json"))}
    found, remarks = index.digests(folder, wanted)
    assert 6 == len(found)
    assert "cannot be kept" in remarks[0]


def test_a_damaged_file_among_many_costs_itself_and_a_remark(tmp_path):
    folder = make.archive(tmp_path / "a", builds=9, cases=2)
    (folder / "d003.json").write_text("damaged")
    wanted = {path.name: path for path in sorted(folder.glob("*.json"))}
    found, remarks = index.digests(None, wanted)
    assert set(wanted) - {"d003.json"} == set(found)
    assert ["d003.json" in remark for remark in remarks] == [True]
