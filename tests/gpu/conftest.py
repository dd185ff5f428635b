"""Engines on an NVIDIA GPU. Where there is none, everything here is skipped with the reason."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench_run.graph.format.hipdnn_json import write_graph
from bench_run.graph.make import make_graphs
from tests.conformance.opening import GPU, engine_params, opened
from tests.support import graph_json, register_engines

os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")  # as a run does for cuDNN; read at load

SPECS = ("cudnn", "cublaslt", "onnxruntime:cuda", "torch:cuda")


APPROXIMATE = ("tanh_fwd]", "tanh_bwd]")
"""cuDNN's float32 tanh, and what is made of it, is the hardware's approximation (8e-6)."""


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.needs(GPU))
    marker = pytest.mark.xfail(reason="cuDNN takes the hardware's approximation of tanh")
    for item in items:
        if "[cudnn-pointwise" in item.nodeid and item.nodeid.endswith(APPROXIMATE):
            item.add_marker(marker)


@pytest.fixture(autouse=True)
def company(request):
    """Tests of several processes share the device, but for those that are marked `alone`: what the
    others draw would be in their joules."""
    alone = request.node.get_closest_marker("alone") is not None
    how = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    folder = Path(tempfile.gettempdir())
    with ExitStack() as held:
        door, device = (
            held.enter_context((folder / f"bench-run-gpu-tests-{name}.lock").open("a"))
            for name in ("door", "device")
        )
        fcntl.flock(door, how)  # whoever waits to be alone keeps those out who come later
        fcntl.flock(device, how)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


@pytest.fixture(scope="session", params=engine_params(*SPECS))
def engine_spec(request):
    return request.param


@pytest.fixture(scope="session")
def engine(engine_spec):
    with opened(engine_spec) as engine:
        yield engine


@pytest.fixture(scope="session")
def stream():
    from bench_run.errors import EngineUnavailableError
    from bench_run.streams.cuda import open_stream

    try:
        return open_stream(0)
    except EngineUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def hostile_gpu(tmp_path_factory, monkeypatch):
    """Makes the engine `hostile_gpu` known to every process the test starts."""
    folder = tmp_path_factory.mktemp("site")
    source = Path(__file__).with_name("hostile_gpu.py")
    (folder / "hostile_gpu.py").write_text(source.read_text())
    register_engines(folder, hostile_gpu="hostile_gpu")
    here = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{here}".rstrip(os.pathsep))


@pytest.fixture(params=engine_params(*SPECS))
def spec(request):
    """An engine that can be expected to run here."""
    return request.param


@pytest.fixture
def products_only(request):
    """Whether the engine asked is cuBLASLt, which has no addition."""
    return "spec" in request.fixturenames and request.getfixturevalue("spec") == "cublaslt"


def written(path, product):
    (graph,) = make_graphs(product)
    path.write_bytes(write_graph(graph))
    return path


@pytest.fixture
def small_graph(small_graph, products_only):
    """The path of one small graph that the engine has."""
    return written(small_graph, "matmul: m=4 n=8 k=16") if products_only else small_graph


@pytest.fixture
def big_graph(tmp_path, products_only):
    """Tens of microseconds on any device: an addition of 128 MB tensors, or a product with
    weights of 128 MB."""
    path = tmp_path / "big.json"
    if products_only:
        return written(path, "matmul: m=16 n=8192 k=8192 dtype=half")
    path.write_text(json.dumps(graph_json("big_add", (8192, 4096))))
    return path


@pytest.fixture
def run(bench_run_command, tmp_path):
    """The document of a run."""

    def run(*words):
        done = bench_run_command(*words, "-o", "out.json", "--force")
        assert (tmp_path / "out.json").exists(), done.stderr
        return json.loads((tmp_path / "out.json").read_text())

    return run
