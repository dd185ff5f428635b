"""The commands for AMD hardware, typed on the double: the page and the commands agree."""

from __future__ import annotations

import io
import tarfile

import pytest
import zstandard

from tests.hardware.commands import run, sections
from tests.hardware.report import pack

QUICK = ("1 ", "2 ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hardware")


def test_the_page_has_a_command_and_an_expectation_in_every_section():
    found = sections()
    assert len(found) > 3
    assert all(section.commands and section.everywhere for section in found)


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(section, marks=() if section.title.startswith(QUICK) else pytest.mark.slow)
        for section in sections()
    ],
    ids=lambda section: section.title,
)
def test_a_command_prints_on_the_double_what_the_page_says(folder, doubles, section):
    plugins = str(doubles / "hipdnn_plugins" / "engines")
    done = run(section, folder, PYTHONPATH=str(doubles), PLUGIN_OLD=plugins, PLUGIN_NEW=plugins,
               HIPDNN_DOUBLE_PROFILE="newest")  # fmt: skip
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert [] == section.missing(output, hardware=False), output


def test_the_report_holds_logs_and_documents(tmp_path):
    for name in ("log_1.txt", "run.json", "trace.bin"):
        (tmp_path / name).write_text(name)
    (tmp_path / "graphs").mkdir()
    report = tmp_path / "report.tar.zst"
    assert ["log_1.txt", "run.json"] == pack(tmp_path, report)
    data = zstandard.decompress(report.read_bytes(), max_output_size=1 << 20)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert ["hardware_report/log_1.txt", "hardware_report/run.json"] == archive.getnames()
