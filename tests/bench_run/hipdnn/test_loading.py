"""Where the bindings and their backend come from: wheels, builds, prefixes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_run.engines.hipdnn.backend import preload
from bench_run.engines.hipdnn.loading import find_below
from bench_run.errors import EngineUnavailableError


@pytest.mark.parametrize("place", ["wheel_package", "build/wheel_package"])
def test_a_build_has_its_bindings_in_a_wheel_package(tmp_path, doubles, place):
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "hipdnn_frontend").symlink_to(doubles / "hipdnn_frontend")
    assert (tmp_path / place).resolve() == find_below(str(tmp_path))


@pytest.fixture
def library_file():
    """A small shared library of this machine."""
    found = sorted(Path("/").glob("lib*/*/libutil.so.1")) + sorted(Path("/").glob("lib*/libutil*"))
    if not found:
        pytest.skip("no small library to copy")
    return found[0]


def mapped(path):
    return str(path) in Path("/proc/self/maps").read_text()


def test_the_backend_below_a_prefix_is_loaded_before_the_bindings(tmp_path, library_file):
    backend = tmp_path / "lib" / "libhipdnn_backend.so.1"
    backend.parent.mkdir()
    backend.write_bytes(library_file.read_bytes())
    assert backend == preload(str(tmp_path))
    assert mapped(backend)


def test_the_backend_of_the_runtime_wheel_is_found_by_its_name(tmp_path, library_file, monkeypatch):
    backend = tmp_path / "hipdnn_runtime" / "lib" / "libhipdnn_backend.so"
    backend.parent.mkdir(parents=True)
    backend.write_bytes(library_file.read_bytes())
    facts = tmp_path / "hipdnn_runtime_gfx942-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Name: hipdnn-runtime-gfx942\nVersion: 1.0\n")
    (facts / "RECORD").write_text("hipdnn_runtime/lib/libhipdnn_backend.so,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert backend == preload(None)
    assert mapped(backend)


def test_a_backend_that_does_not_load_is_named(tmp_path):
    (tmp_path / "libhipdnn_backend.so").write_text("no library")
    with pytest.raises(EngineUnavailableError, match=r"libhipdnn_backend\.so does not load: "):
        preload(str(tmp_path))
