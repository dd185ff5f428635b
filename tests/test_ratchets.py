"""The packages and tests become smaller, not larger: `tests/sizes.toml`, `tests/surface.toml`."""

from tests import ratchets


def test_no_folder_has_more_code_lines_than_its_row():
    rows = ratchets.read(ratchets.SIZES)
    above = {name: n for name, n in ratchets.sizes().items() if n > rows.get(name, 0)}
    assert not above, f"more code lines than tests/sizes.toml allows: {above}"


def test_no_further_test_imports_internals():
    table = ratchets.read(ratchets.SURFACE)
    found = ratchets.insiders(set(table["modules"]))
    assert found == table["insiders"], "run python -m tests.ratchets after a file left the list"
