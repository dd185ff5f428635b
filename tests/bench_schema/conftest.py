"""The stored document of each version, as text, plain values and dataclasses."""

import copy
import json
from pathlib import Path

import pytest
from bench_schema import files
from bench_schema.document import SCHEMA_VERSION

DOCUMENTS = Path(__file__).parents[1] / "data" / "documents"


@pytest.fixture(scope="session")
def stored_path():
    return DOCUMENTS / f"v{SCHEMA_VERSION}.json"


@pytest.fixture(scope="session")
def stored(stored_path):
    return files.read(stored_path)


@pytest.fixture(scope="session")
def stored_tree(stored_path):
    """A fresh copy of the plain values at every call."""
    tree = json.loads(stored_path.read_bytes())
    return lambda: copy.deepcopy(tree)


@pytest.fixture
def broken(stored_tree, tmp_path):
    """Writes the stored document with the value at a path replaced; gives the file."""

    def write(path, value):
        tree = stored_tree()
        home = tree
        for part in path[:-1]:
            home = home[part]
        home[path[-1]] = value
        file = tmp_path / "broken.json"
        file.write_text(json.dumps(tree))
        return file

    return write
