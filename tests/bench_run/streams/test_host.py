"""The host's clock as a stream."""

from __future__ import annotations

import pytest

from bench_run.streams.host import LEAST_READ_BYTES, HostStream, last_level_cache_bytes


def test_elapsed_time_is_the_difference_of_the_marks():
    assert 25 == HostStream().elapsed_ns(100, 125)


def test_marks_rise():
    stream = HostStream()
    first = stream.mark()
    assert stream.mark() >= first


def test_there_is_no_gate_and_no_empty_kernel():
    stream = HostStream()
    with stream.gate():
        pass
    assert (0, None, "host") == (stream.gate_depth, stream.abilities.empty, stream.clock)


@pytest.mark.parametrize("cache", ["hot", "rotate"])
def test_only_a_cold_cache_is_flushed(cache):
    stream = HostStream(cache)
    assert stream.flush() is None
    assert stream.flush == stream.synchronize


def test_a_cold_cache_is_flushed_by_reading_twice_its_size():
    stream = HostStream("cold", cache_bytes=4096)
    buffer = next(c.cell_contents for c in stream.flush.__closure__)
    assert 8192 == buffer.nbytes
    assert stream.flush() is None


@pytest.mark.parametrize(("pass_bytes", "read"), [(1000, 1000), (100_000, 8192)])
def test_in_a_pass_as_much_is_read_as_it_touches_and_no_more_than_for_cold(pass_bytes, read):
    stream = HostStream("pass", cache_bytes=4096, pass_bytes=pass_bytes)
    buffer = next(c.cell_contents for c in stream.flush.__closure__)
    assert read == buffer.nbytes


def test_what_a_cache_state_reads_can_be_left_out():
    stream = HostStream("pass", pass_bytes=1 << 20)
    alone = stream.flush
    with stream.without_flush():
        assert (False, None) == (stream.flushes(), stream.flush())
    assert (True, alone) == (stream.flushes(), stream.flush)


@pytest.mark.parametrize(("left", "read"), [(LEAST_READ_BYTES, True), (0, False)])
def test_what_runs_before_comes_after_what_is_read_and_is_gone_afterwards(left, read):
    stream, order = HostStream("pass", pass_bytes=1 << 20), []
    alone = stream.flush
    with stream.run_before(lambda: order.append("run"), left):
        held = [c.cell_contents for c in stream.flush.__closure__]
        stream.flush()
    assert (["run"], alone, read) == (order, stream.flush, None not in held)


def test_the_largest_cache_the_system_tells_of_is_the_last_level(tmp_path):
    for index, size in enumerate(("48K", "1024K", "32M", "512")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(f"{size}\n")
    assert 32 * 1024**2 == last_level_cache_bytes(tmp_path)


def test_without_a_word_from_the_system_64_mib_are_assumed(tmp_path):
    assert 64 * 1024**2 == last_level_cache_bytes(tmp_path)
