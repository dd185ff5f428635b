"""Outputs in a device's memory: copies are held there, and read when asked for."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from bench_run.engines.base import PlanAbilities
from bench_run.errors import EngineError
from bench_run.graph.make import make_graphs
from bench_run.streams.base import StreamAbilities
from bench_run.streams.host import HostStream
from bench_run.worker.outputs import OutputReader

GRAPH = make_graphs("batchnorm_training: n=2 c=3 h=4 w=4 dtype=float")[0]


class Memory:
    """Of the host, in the place of a device's: so much, and every copy is done at once."""

    def __init__(self, size):
        self.left, self.blocks, self.log = size, {}, []

    def allocate(self, size):
        if size > self.left:
            raise EngineError("out of memory on the device")
        block = ctypes.create_string_buffer(max(1, size))
        self.left -= size
        self.blocks[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def free(self, address):
        self.left += len(self.blocks.pop(address))

    def copy(self, to, address, size):
        self.log.append("hold")
        ctypes.memmove(to, address, size)

    def copy_out(self, host, address, size):
        self.log.append("read")
        ctypes.memmove(host, address, size)


class Stream(HostStream):
    def __init__(self, memory):
        super().__init__()
        self._memory = memory

    @property
    def abilities(self):
        return StreamAbilities(memory=lambda: self._memory)


class Counting:
    """Run number n leaves n everywhere."""

    def __init__(self):
        self.homes = {t.uid: np.zeros(t.span, np.uint32) for t in GRAPH.outputs}
        self.ran = 0

    def run(self):
        self.ran += 1
        for home in self.homes.values():
            home[...] = self.ran

    def poison(self):
        pass

    def download(self):
        raise AssertionError("outputs are where the plan says")

    @property
    def abilities(self):
        return PlanAbilities(locate_outputs=self.locate_outputs)

    def locate_outputs(self, *, upcoming):
        return {uid: int(home.ctypes.data) for uid, home in self.homes.items()}


def reader_of(plan, size=1 << 20):
    memory = Memory(size)
    reader = OutputReader(plan, Stream(memory), GRAPH)
    plan.run()
    return reader, memory


def values(outputs):
    (found,) = {int(each) for array in outputs.values() for each in array.view(np.uint32)}
    return found


def test_a_reading_is_what_the_last_run_left():
    plan = Counting()
    reader, _ = reader_of(plan)
    assert [1, {t.uid for t in GRAPH.outputs}] == [values(reader.read()), set(reader.read())]


def test_copies_are_what_was_there_when_they_were_taken():
    plan = Counting()
    reader, _ = reader_of(plan)
    reader.reserve(3)
    for _ in range(3):
        assert reader.hold()
        plan.run()
    assert [1, 2, 3] == [values(each) for each in reader.fetch()]


def test_without_room_nothing_is_held():
    plan = Counting()
    reader, _ = reader_of(plan)
    reader.reserve(1)
    assert [True, False] == [reader.hold(), reader.hold()]


def test_where_there_is_less_memory_than_asked_for_there_is_room_for_two():
    reader, _ = reader_of(Counting(), size=3 * 256 * len(GRAPH.outputs))
    reader.reserve(100)
    assert reader.room == 2


def test_where_there_is_no_memory_outputs_are_read_at_once():
    reader, _ = reader_of(Counting(), size=0)
    reader.reserve(2)
    assert [0, False, 1] == [reader.room, reader.hold(), values(reader.read())]


@pytest.mark.parametrize("end", ["fetch", "close"])
def test_all_room_is_given_back(end):
    reader, memory = reader_of(Counting())
    reader.reserve(4)
    reader.hold()
    getattr(reader, end)()
    assert not memory.blocks
