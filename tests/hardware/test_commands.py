"""The commands of the README on an AMD GPU."""

from __future__ import annotations

import pytest

from tests.hardware.commands import run, sections

pytestmark = [pytest.mark.hardware, pytest.mark.needs("hipdnn")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hardware")


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.title)
def test_a_command_prints_what_the_page_says(folder, section):
    done = run(section, folder)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert [] == section.missing(output, hardware=True), output
