"""graphs/FORMAT.md describes what the operations table reads."""

from __future__ import annotations

import re

import pytest

from bench_run.graph.dtypes import DTYPES
from bench_run.graph.operations import OPERATIONS, POINTWISE_MODES
from tests.conftest import ROOT

TEXT = (ROOT / "graphs" / "FORMAT.md").read_text(encoding="utf-8")
CODE = set(re.findall(r"`([^`\n]+)`", TEXT))


@pytest.mark.parametrize("row", OPERATIONS.values(), ids=OPERATIONS)
def test_a_node_type_is_described_with_its_ports_and_parameters(row):
    (line,) = [line for line in TEXT.splitlines() if line.startswith(f"| `{row.type}` |")]
    described = [set(re.findall(r"`(\w+)`", cell)) for cell in line.split("|")[2:5]]
    ports = [{port.name for port in ports} for ports in (row.inputs, row.outputs)]
    assert [*ports, {parameter.name for parameter in row.parameters}] == described


def test_every_pointwise_mode_and_data_type_is_described():
    assert set() == {*POINTWISE_MODES, *DTYPES} - CODE


def test_docstrings_cite_pages_that_exist():
    cited = {
        page
        for folder in ("bench_run", "bench_compare", "schema")
        for path in (ROOT / folder).rglob("*.py")
        for page in re.findall(r"[\w/.]*\w\.md\b", path.read_text(encoding="utf-8"))
    }
    assert [] == [page for page in sorted(cited) if not (ROOT / page).is_file()]
