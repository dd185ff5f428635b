"""The doctor: what is there, what is missing, and what to do about it."""

from __future__ import annotations

import os
import stat

import pytest

from bench_run.commands import doctor


def test_the_report_has_every_section(bench_run_command):
    done = bench_run_command("doctor")
    assert 0 == done.returncode, done.stderr
    for title in ("Engines", "Libraries", "hipDNN plugin folders", "Tools", "Device files"):
        assert f"\n{title}\n" in done.stdout
    for name in (*doctor.LIBRARIES, *doctor.TOOLS, *doctor.DEVICE_FILES):
        assert name in done.stdout


def test_a_missing_library_comes_with_how_to_get_it():
    found = doctor.library("no_such_module", ("no-such-package", "pip install it"))
    assert doctor.Finding(False, "no_such_module", "pip install it") == found


def test_a_present_library_comes_with_its_version():
    assert doctor.library("numpy", ("numpy", "")).ok


def test_a_missing_tool_comes_with_what_it_is_for():
    assert doctor.Finding(False, "no-such-tool", "for tests") == doctor.tool(
        "no-such-tool", "for tests"
    )


def test_plugins_are_listed_and_not_loaded(tmp_path, monkeypatch):
    monkeypatch.delenv("HIPDNN_PLUGIN_DIR", raising=False)
    folder = tmp_path / "rocm-7.1" / "lib" / "hipdnn_plugins" / "engines"
    folder.mkdir(parents=True)
    (folder / "libmiopen_plugin.so").write_text("text, not code")
    assert [doctor.Finding(True, str(folder), "libmiopen_plugin.so")] == doctor.plugin_folders(
        tmp_path
    )


def test_the_folder_of_the_environment_is_listed_too(tmp_path, monkeypatch):
    monkeypatch.setenv("HIPDNN_PLUGIN_DIR", str(tmp_path))
    assert [doctor.Finding(False, str(tmp_path), "no plugin in it")] == doctor.plugin_folders(
        tmp_path
    )


def test_no_plugin_folder_says_how_to_name_one(tmp_path, monkeypatch):
    monkeypatch.delenv("HIPDNN_PLUGIN_DIR", raising=False)
    assert "--plugin-path" in doctor.plugin_folders(tmp_path)[0].text


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may do everything")
def test_a_device_file_that_may_not_be_opened_names_its_group(tmp_path):
    path = tmp_path / "kfd"
    path.write_text("")
    path.chmod(stat.S_IRUSR)
    assert f"usermod -aG {path.group()}" in doctor.device_file(str(path)).text


def test_a_device_file_of_ours_is_fine(tmp_path):
    path = tmp_path / "kfd"
    path.write_text("")
    assert doctor.device_file(str(path)).ok


def test_counters_that_anybody_may_read_are_fine(tmp_path):
    path = tmp_path / "params"
    path.write_text("RmProfilingAdminOnly: 0\n")
    assert doctor.permissions(str(path))[0].ok


def test_a_machine_without_nvidias_driver_has_no_say_on_counters(tmp_path):
    assert [] == doctor.permissions(str(tmp_path / "params"))
