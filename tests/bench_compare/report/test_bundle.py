"""The modules of the page, as one script."""

import re
from importlib.resources import files

from bench_compare.report.html import EXPORT, IMPORT, MODULES, code

ASSETS = files("bench_compare.report.html") / "assets"
TEXTS = {
    one.name[:-3]: one.read_text("utf-8") for one in ASSETS.iterdir() if one.name[-3:] == ".js"
}


def imports(name):
    """Module and name of everything that a module imports."""
    return [
        (source, one.strip())
        for names, source in IMPORT.findall(TEXTS[name])
        for one in names.strip("{} \n").split(",")
        if one.strip()
    ]


def test_the_page_leaves_no_module_out():
    assert set(TEXTS) == set(MODULES)


def test_a_module_comes_after_what_it_imports():
    places = {name: place for place, name in enumerate(MODULES)}
    late = [(n, s) for n in MODULES for s, _ in imports(n) if places[s] >= places[n]]
    assert [] == late


def test_what_is_imported_is_exported_and_used():
    exported = {(name, one) for name, text in TEXTS.items() for one in EXPORT.findall(text)}
    imported = {one for name in TEXTS for one in imports(name)}
    assert exported == imported


def test_no_import_or_export_is_left_in_the_script():
    assert [] == re.findall(r"^\s*(?:import|export)\b.*", code(), re.MULTILINE)
