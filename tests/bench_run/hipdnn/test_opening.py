"""Opening: the library, the device, plugins; and what each refusal says."""

from __future__ import annotations

import hashlib
import os

import pytest

from bench_run.engines import hipdnn
from bench_run.engines.base import EngineOptions
from bench_run.engines.caches import AMD, USERS
from bench_run.engines.spec import parse_spec
from bench_run.errors import EngineUnavailableError, UsageError
from tests.conformance.graphs import FAMILIES


def test_without_the_module_it_is_not_available_and_says_how_to_get_it():
    with pytest.raises(EngineUnavailableError, match=r"no module hipdnn_frontend.*--hipdnn-prefix"):
        hipdnn.open(parse_spec("hipdnn"), EngineOptions())


def test_a_module_that_does_not_load_is_reported_with_its_own_words(open_engine):
    with pytest.raises(EngineUnavailableError, match=r"libhipdnn_backend\.so: cannot open shared"):
        open_engine(variables={"import_error": "1"})


def test_without_a_device_it_is_not_available(open_engine):
    with pytest.raises(EngineUnavailableError, match="no AMD GPU is visible"):
        open_engine(variables={"devices": "0"})


def test_a_module_without_what_every_run_needs_is_named_with_it(double, open_engine, monkeypatch):
    module = double()
    monkeypatch.delattr(module.Graph, "check_support")
    with pytest.raises(EngineUnavailableError, match=r"1\.2\.0 has no Graph\.check_support"):
        hipdnn.open(parse_spec("hipdnn"), EngineOptions())


def test_a_prefix_without_the_module_says_where_was_looked(tmp_path):
    with pytest.raises(EngineUnavailableError, match=r"below .*looked in .*site-packages"):
        hipdnn.open(parse_spec("hipdnn"), EngineOptions(prefix=str(tmp_path)))


def test_a_prefix_leads_to_the_module(tmp_path, doubles, release, monkeypatch):
    release()
    monkeypatch.setattr("sys.path", [p for p in os.sys.path if p != str(doubles)])
    place = tmp_path / "lib" / "python3.12" / "site-packages"
    place.mkdir(parents=True)
    (place / "hipdnn_frontend").symlink_to(doubles / "hipdnn_frontend")
    engine = hipdnn.open(parse_spec("hipdnn"), EngineOptions(prefix=str(tmp_path)))
    assert "1.2.0" == engine.facts.libraries["hipdnn_frontend"]
    engine.close()


def test_the_plugin_its_hash_and_its_version_are_on_record(open_engine, plugin):
    folder = plugin("build", version="2.3.4")
    facts = open_engine(f"hipdnn:MIOPEN_ENGINE@{folder}").facts
    file = folder / "libmiopen_plugin.so"
    assert (str(file), hashlib.sha256(file.read_bytes()).hexdigest()) == (
        facts.plugin_path,
        facts.plugin_sha256,
    )
    assert "2.3.4 (libmiopen_plugin)" == facts.libraries["MIOPEN_ENGINE"]


def test_a_plugin_can_be_named_by_its_file(open_engine, plugin):
    file = plugin("build") / "libmiopen_plugin.so"
    assert str(file) == open_engine(f"hipdnn:MIOPEN_ENGINE@{file}").facts.plugin_path


def test_several_plugins_are_one_hash_of_their_hashes(open_engine, plugin):
    folder = plugin("build")
    plugin("build", name="libother.so", engines=("OTHER",))
    first = open_engine(f"hipdnn@{folder}").facts
    assert (str(folder), 64) == (first.plugin_path, len(first.plugin_sha256))


def test_a_plugin_path_that_is_not_there_is_refused(open_engine, tmp_path):
    with pytest.raises(UsageError, match="there is no plugin path"):
        open_engine(f"hipdnn@{tmp_path / 'nothing'}")


def test_a_folder_without_plugins_is_refused(open_engine, tmp_path):
    with pytest.raises(UsageError, match="no plugin"):
        open_engine(f"hipdnn@{tmp_path}")


def test_a_plugin_that_hipdnn_skipped_is_no_silent_loss(open_engine, tmp_path):
    (tmp_path / "libbroken.so").write_text("not a plugin")
    words = r"loaded no plugin of .*HIPDNN_LOG_LEVEL=info"
    with pytest.raises(EngineUnavailableError, match=words):
        open_engine(f"hipdnn@{tmp_path}")


def test_without_a_memory_map_the_named_plugin_is_taken_for_loaded(
    open_engine, plugin, monkeypatch
):
    monkeypatch.setattr("bench_run.engines.hipdnn.opening.mapped_files", lambda *_: None)
    file = plugin("build") / "libmiopen_plugin.so"
    assert str(file) == open_engine(f"hipdnn@{file}").facts.plugin_path


@pytest.mark.parametrize(("mode", "engines"), [("absolute", 1), ("additive", 3)])
def test_the_loading_mode_decides_what_is_loaded_beside(open_engine, plugin, mode, engines):
    engine = open_engine("hipdnn:all", plugin_paths=(str(plugin("build")),), plugin_mode=mode)
    assert engines == len(engine.variants(FAMILIES["matmul_2d"]("float", "packed")))


def test_a_device_is_chosen_before_the_library_loads(open_engine, monkeypatch):
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "2, 5")
    open_engine(variables={"devices": "6"}, device=1)
    assert "5" == os.environ["HIP_VISIBLE_DEVICES"]


def test_a_device_that_is_not_visible_is_refused(open_engine, monkeypatch):
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "2,5")
    with pytest.raises(EngineUnavailableError, match="shows 2"):
        open_engine(device=2)


def test_a_device_is_counted_within_what_the_runtime_below_shows(open_engine, monkeypatch):
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "4,6")
    assert "hip:4" == open_engine(device=0).facts.device


def test_settings_of_the_engine_are_on_record(open_engine, plugin, tmp_path):
    spec = f"hipdnn:MIOPEN_ENGINE+lib={tmp_path}@{plugin('build')}"
    assert {
        "mix": "0.5",
        "plugin mode": "absolute",
        "caches": "own, empty when the run began",
        "library folder": str(tmp_path),
    } == open_engine(spec, knobs={"mix": "0.5"}).facts.knobs


def test_a_timer_that_it_has_not_is_refused(open_engine):
    with pytest.raises(UsageError, match="knows auto, events, host"):
        open_engine(timer="cupti")


def test_an_unknown_option_is_refused(open_engine):
    with pytest.raises(UsageError, match="no option 'fast'; choose from lib=DIR"):
        open_engine("hipdnn:1+fast")


def test_probing_runs_no_foreign_code(release):
    release()
    hipdnn.probe()
    assert "hipdnn_frontend" not in os.sys.modules


def test_each_side_has_caches_of_its_own(plugin, monkeypatch):
    monkeypatch.delenv("HIPDNN_CACHE_DIR", raising=False)
    spec = parse_spec(f"hipdnn:MIOPEN_ENGINE@{plugin('a')}")
    first, second = (hipdnn.environment(spec, EngineOptions()) for _ in range(2))
    assert set(AMD) == set(first)
    assert set(first.values()).isdisjoint(second.values())
    assert all(os.path.isdir(folder) for folder in first.values())


def test_the_users_caches_are_used_where_that_is_wanted():
    options = EngineOptions(vendor_caches="user")
    assert {} == hipdnn.environment(parse_spec("hipdnn:MIOPEN_ENGINE"), options)


def test_a_folder_that_is_named_holds_the_caches(tmp_path):
    options = EngineOptions(vendor_caches="shared", cache_dir=str(tmp_path))
    found = [hipdnn.environment(parse_spec("hipdnn"), options) for _ in range(2)]
    assert found[0] == found[1]
    assert str(tmp_path / "hipdnn") == found[0]["HIPDNN_CACHE_DIR"]


def test_a_warm_cache_that_was_read_is_on_record(open_engine, tmp_path):
    (tmp_path / "winner").write_text("1")
    engine = open_engine(vendor_caches="shared", cache_dir=str(tmp_path))
    assert "warm: 1 files when it was opened" in engine.facts.knobs["caches"]


@pytest.mark.parametrize(
    ("filled", "words"),
    [((), "the user's"), (("HIPDNN_CACHE_DIR",), "the user's, warm: HIPDNN_CACHE_DIR")],
)
def test_a_warm_cache_of_the_user_is_on_record(open_engine, tmp_path, monkeypatch, filled, words):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in USERS:
        monkeypatch.delenv(name, raising=False)
    for name in filled:
        monkeypatch.setenv(name, str(tmp_path / "named"))
        (tmp_path / "named" / "ingestor-winners").mkdir(parents=True)
        (tmp_path / "named" / "ingestor-winners" / "winners.jsonl").write_text("{}")
    assert words == open_engine(vendor_caches="user").facts.knobs["caches"]


def test_the_users_caches_are_looked_for_at_home(open_engine, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, place in USERS.items():
        monkeypatch.delenv(name, raising=False)
        folder = tmp_path / place.removeprefix("~/")
        folder.mkdir(parents=True)
        (folder / "entry").write_text("1")
    caches = open_engine(vendor_caches="user").facts.knobs["caches"]
    assert f"the user's, warm: {', '.join(USERS)}" == caches


def test_the_library_behind_the_plugin_can_be_named(tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/rocm/lib")
    found = hipdnn.environment(parse_spec(f"hipdnn:1+lib={tmp_path}"), EngineOptions())
    assert f"{tmp_path}:/opt/rocm/lib" == found["LD_LIBRARY_PATH"]
