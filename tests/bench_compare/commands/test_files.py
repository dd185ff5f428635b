from __future__ import annotations

import tracemalloc

from bench_compare.commands.files import write

LONG = "± a line of a report\n" * 500_000


def test_a_long_report_is_written_as_it_is(tmp_path):
    write(tmp_path / "report", LONG)
    assert (tmp_path / "report").read_text("utf-8") == LONG


def test_a_long_report_is_not_held_twice_while_it_is_written(tmp_path):
    tracemalloc.start()
    write(tmp_path / "report", LONG)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(LONG) / 2
