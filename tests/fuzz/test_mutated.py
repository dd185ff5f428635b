"""What the proof with changed documents takes for a finding."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from tests.benchmarks import compare_mutated


@pytest.fixture
def mapped():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def broken(monkeypatch, action):
    monkeypatch.setattr(compare_mutated, "attempt", lambda name, content: action())


def test_a_process_that_dies_is_a_finding(monkeypatch, mapped):
    broken(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert "signal 9" in compare_mutated.tried(0, 0, mapped)[0]


def test_words_on_stderr_are_a_finding(monkeypatch, mapped):
    broken(monkeypatch, lambda: os.write(2, b"corrupted double-linked list") and None)
    assert compare_mutated.tried(0, 0, mapped)[0] == "corrupted double-linked list"


def test_too_much_memory_is_a_finding(monkeypatch, mapped):
    broken(monkeypatch, lambda: str(len(bytes(8 * compare_mutated.LIMIT_BYTES))))
    assert "MemoryError" in compare_mutated.tried(0, 0, mapped)[0]


@pytest.mark.parametrize("number", [0, 7, 8, 9])
def test_a_document_of_each_kind_ends_well(number, mapped):
    assert compare_mutated.tried(0, number, mapped)[0] is None
