"""Each broken file of tests/data/broken/graphs gives one line that names the file and the fault."""

import pytest

from bench_run.errors import GraphError
from bench_run.graph.sources.load import load
from tests.bench_run.graph.builders import ROOT

FOLDER = ROOT / "tests" / "data" / "broken" / "graphs"
FILES = sorted(FOLDER.glob("*.json"))


def message_of(path):
    try:
        report = load([str(path)])
    except GraphError as error:
        return str(error)
    return " / ".join(str(failure.error) for failure in report.failures)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_broken_file_is_refused_in_one_line_with_place_and_expectation(path):
    expected = path.with_suffix(".expected").read_text().strip()
    message = message_of(path)
    assert message.startswith(str(path))
    assert expected in message
    assert "\n" not in message


def test_every_broken_file_has_its_expected_words():
    words = {path.stem for path in FOLDER.glob("*.expected")}
    assert words == {path.stem for path in FILES}
