"""``--cache pass`` on the processor: what runs before each iteration, and what is said of it."""

from types import SimpleNamespace

import pytest

from bench_run.engines.base import EngineOptions
from bench_run.engines.numpy_engine.engine import open_engine
from bench_run.engines.spec import parse_spec
from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.graph.chain.model import Preceding
from bench_run.streams.host import HostStream
from bench_run.worker.within_pass import FACT, within_pass
from tests.bench_run.graph.chain.pipelines import RESIDUAL, chain


class Refuses:
    """An engine that takes no layer, or has no memory for any."""

    def __init__(self, error):
        self._error, self.stream = error, HostStream("pass", pass_bytes=4096)

    def build(self, _graph, _variant):
        raise self._error


def request(left_bytes=0):
    preceding = Preceding(chain(RESIDUAL), left_bytes)
    return SimpleNamespace(preceding=preceding, data=SimpleNamespace(seed=0))


@pytest.fixture
def engine():
    made = open_engine(parse_spec("numpy"), EngineOptions(cache="pass", pass_bytes=1 << 20))
    yield made
    made.close()


def test_the_layers_before_run_in_place_of_the_flush_and_only_within_the_case(engine):
    alone = engine.stream.flush
    with within_pass(engine, request()) as told:
        assert engine.stream.flush != alone
        engine.stream.flush()
    assert (alone, {FACT: "3 layers of the pipeline run"}) == (engine.stream.flush, told)


def test_what_a_pass_touches_before_these_layers_is_read(engine):
    with within_pass(engine, request(100_000)) as told:
        engine.stream.flush()
    assert {FACT: "100000 bytes are read, then 3 layers of the pipeline run"} == told


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (UnsupportedGraphError("no pooling"), "layers conv, again, sum: no pooling"),
        (EngineError("out of handles"), "layer conv: out of handles"),
        (MemoryError(), "out of memory"),
    ],
)
def test_where_the_engine_cannot_run_them_bytes_are_read_and_the_case_says_why(error, why):
    engine = Refuses(error)
    alone = engine.stream.flush
    with within_pass(engine, request()) as told:
        assert engine.stream.flush == alone
    assert told[FACT].startswith("as many bytes are read; the layers before do not run: ")
    assert why in told[FACT]


def test_elsewhere_nothing_is_said():
    with within_pass(Refuses(MemoryError()), SimpleNamespace(preceding=None)) as told:
        assert {} == told
