"""What a tuning has found out outlives full disks."""

from __future__ import annotations

import resource
import signal
from contextlib import contextmanager

import pytest
from bench_schema.document import Outcome

from bench_run.errors import OutputError
from bench_run.tune.journal import TuneJournal
from bench_run.tune.racing import BlockSample

HEAD = {"graphs": ["g"], "engines": ["e"]}
KEYS = {0: "", 1: "plan=b"}
LONG = "x" * 4000


@contextmanager
def disk_of(size):
    """No file may grow beyond it: a write fails as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@contextmanager
def closing(journal):
    try:
        yield journal
    finally:
        journal.close(done=False)


def keep(journal, block, reason="it crashed"):
    failed = {1: Outcome("crashed", reason)}
    journal.keep_block("g", block, KEYS, {0: BlockSample(1.0, 0.1, 0.2)}, failed)


@pytest.fixture
def journal(tmp_path):
    """Of a tuning that was cut off after its first block."""
    journal = TuneJournal(str(tmp_path / "tuned.json"), HEAD, resume=False)
    keep(journal, 0)
    journal.close(done=False)
    return str(tmp_path / "tuned.json")


def test_a_line_that_cannot_be_written_is_one_error_and_closing_adds_none(journal):
    going_on = TuneJournal(journal, HEAD, resume=True)
    with disk_of(1000), pytest.raises(OutputError, match="races: File too large"):
        keep(going_on, 1, LONG)
    with disk_of(1000):
        going_on.close(done=False)
    with closing(TuneJournal(journal, HEAD, resume=True)) as again:
        assert 1 == again.resumed


def test_a_disk_that_is_full_when_a_tuning_goes_on_loses_nothing(journal, tmp_path):
    with disk_of(20), pytest.raises(OutputError, match="races: File too large"):
        TuneJournal(journal, HEAD, resume=True)
    assert ["tuned.json.races"] == [path.name for path in tmp_path.iterdir()]
    with closing(TuneJournal(journal, HEAD, resume=True)) as again:
        visits, failed = again.recall_block("g", 0, KEYS)
    assert ([0], [1]) == (list(visits), list(failed))
