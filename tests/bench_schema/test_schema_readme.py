"""The words about the document name every field, and their code runs."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from bench_schema.checks.acceptor import load_schema
from bench_schema.document import SCHEMA_VERSION

README = Path(__file__).parents[2] / "schema" / "README.md"


def field_names(schema):
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for value in schema.values():
            yield from field_names(value)


@pytest.mark.parametrize("name", sorted(set(field_names(load_schema(SCHEMA_VERSION)))))
def test_every_field_is_explained(name):
    assert f"`{name}`" in README.read_text()


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_every_version_has_a_line(version):
    assert f"\n| {version} | " in README.read_text()


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_jq_example_runs(stored_path, stored):
    command = re.search(r"```sh\n(.*?)\n", README.read_text(), re.DOTALL)[1]
    command = command.replace("run.json", str(stored_path))
    lines = subprocess.check_output(command, shell=True, text=True).splitlines()
    _, engine, median_ns = lines[0].split("\t")
    assert (engine, float(median_ns)) == ("cudnn", stored.cases[0].summary["device_ns"].median)


@pytest.mark.long
def test_the_python_example_runs(stored_path, capsys):
    pytest.importorskip("pandas", reason="the example is for people who have pandas")
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[1]
    exec(code.replace('"run.json"', repr(str(stored_path))))
    assert "device_ns" in capsys.readouterr().out
