"""Where the bindings and their backend come from: wheels, builds, prefixes."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from shutil import copytree
from types import ModuleType

import pytest

from bench_run.engines import hipdnn
from bench_run.engines.base import EngineOptions
from bench_run.engines.hipdnn.loading import find_below, preload
from bench_run.engines.hipdnn.opening import mapped_libraries
from bench_run.engines.spec import parse_spec
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


@pytest.fixture
def site(tmp_path, library_file, doubles, monkeypatch):
    """Makes a folder of installed packages: the bindings, their runtime wheel, or both."""

    def make(name, bindings=True, runtime=True):
        place = tmp_path / name / "site-packages"
        place.mkdir(parents=True)
        monkeypatch.syspath_prepend(str(place))
        if bindings:
            copytree(doubles / "hipdnn_frontend", place / "hipdnn_frontend")
        if runtime:
            facts = place / "hipdnn_runtime_gfx942-1.0.dist-info"
            facts.mkdir()
            (facts / "METADATA").write_text("Name: hipdnn-runtime-gfx942\nVersion: 1.0\n")
            (facts / "RECORD").write_text("hipdnn_runtime/lib/libhipdnn_backend.so,,\n")
            add_backend(place / "hipdnn_runtime")
        return place

    def add_backend(prefix):
        backend = prefix / "lib" / "libhipdnn_backend.so"
        backend.parent.mkdir(parents=True)
        backend.write_bytes(library_file.read_bytes())
        return backend

    make.add_backend = add_backend
    return make


IN_WHEEL = "hipdnn_runtime/lib/libhipdnn_backend.so"


def test_the_backend_is_that_of_the_wheel_beside_the_bindings(site, tmp_path):
    other, own = site("other", bindings=False), site("own")
    assert own / IN_WHEEL == preload(None, own / "hipdnn_frontend")
    assert mapped(own / IN_WHEEL)
    assert not mapped(other / IN_WHEEL)


def test_the_backend_of_rocms_wheels_is_loaded_after_their_runtime(site, tmp_path, monkeypatch):
    own, asked = site("own", runtime=False), []
    backend = site.add_backend(own / "_rocm_sdk_libraries_gfx94X")
    sdk = ModuleType("rocm_sdk")
    sdk.__spec__ = ModuleSpec("rocm_sdk", None)
    sdk.initialize_process = lambda preload_shortnames: asked.extend(preload_shortnames)
    monkeypatch.setitem(sys.modules, "rocm_sdk", sdk)
    assert backend == preload(None, own / "hipdnn_frontend")
    assert ["amd_comgr", "amdhip64", "hiprtc"] == asked


def test_a_build_on_the_path_takes_its_own_backend_though_a_wheel_is_installed(site, tmp_path):
    site("other", bindings=False)
    package = tmp_path / "build" / "wheel_package" / "hipdnn_frontend"
    package.mkdir(parents=True)
    assert preload(None, package) is None  # its backend is elsewhere: the loader decides
    assert site.add_backend(tmp_path / "build") == preload(None, package)


def test_an_installation_has_its_backend_above_the_package(site, tmp_path):
    site("other", bindings=False)
    package = tmp_path / "rocm" / "lib" / "python3.12" / "site-packages" / "hipdnn_frontend"
    package.mkdir(parents=True)
    backend = tmp_path / "rocm" / "lib" / "libhipdnn_backend.so"
    backend.write_bytes((tmp_path / "other" / "site-packages" / IN_WHEEL).read_bytes())
    assert backend == preload(None, package)


def test_installed_bindings_without_a_backend_near_take_that_of_any_wheel(site):
    own, other = site("own", runtime=False), site("other", bindings=False)
    assert other / IN_WHEEL == preload(None, own / "hipdnn_frontend")


def test_the_variable_of_hipdnn_itself_comes_first(site, tmp_path, monkeypatch):
    own = site("own")
    named = site.add_backend(tmp_path / "named")
    monkeypatch.setenv("HIPDNN_BACKEND_LIBRARY_PATH", str(named.parent))
    assert named == preload(None, own / "hipdnn_frontend")


def test_the_backend_that_was_loaded_first_is_on_record(site, release):
    release()
    own = site("own")
    engine = hipdnn.open(parse_spec("hipdnn"), EngineOptions())
    engine.close()
    assert engine.facts.libraries["backend, loaded first"].startswith(str(own / IN_WHEEL))


def test_two_libraries_of_one_name_are_told_apart(tmp_path):
    files = [tmp_path / name / "libhipdnn_backend.so" for name in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_bytes(b"")
    lines = [f"7f-80 r-xp 00000000 08:01 1 {file}\n" for file in files]
    (tmp_path / "maps").write_text("".join(lines))
    assert set(map(str, files)) == set(mapped_libraries(maps=str(tmp_path / "maps")))


def test_a_backend_that_does_not_load_is_named(tmp_path):
    (tmp_path / "libhipdnn_backend.so").write_text("no library")
    with pytest.raises(EngineUnavailableError, match=r"libhipdnn_backend\.so does not load: "):
        preload(str(tmp_path))
