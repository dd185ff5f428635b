import re
from importlib.resources import files

import pytest

from bench_compare.report.compose import page as compose_page
from bench_compare.report.history import page
from bench_compare.report.html import ENTRY
from bench_compare.report.html.bundle import EXPORT, bundled

ASSETS = files("bench_compare.report.html") / "assets"
MODULES = sorted(one.name[:-3] for one in ASSETS.iterdir() if one.name.endswith(".js"))


def joined(**modules):
    return bundled("main", lambda name: modules[name])


def test_a_module_comes_after_what_it_imports():
    code = joined(
        main='import { a } from "./one.js";\nimport { b } from "./two.js";\nshow(a, b);\n',
        one='import { b } from "./two.js";\nexport const a = b;\n',
        two="export const b = 1;\n",
    )
    assert ["two", "one", "main"] == re.findall(r"^const modules_(\w+)", code, re.MULTILINE)


def test_an_import_reads_what_the_module_returns():
    code = joined(
        main='import {\n  a, b,\n} from "./one.js";\n',
        one="export const a = 1;\nexport function b() {}\n",
    )
    assert "return { a, b };" in code
    assert "const { a, b } = modules_one;" in code


def test_a_circle_is_named():
    with pytest.raises(ValueError, match="circle: main -> one -> main"):
        joined(
            main='import { a } from "./one.js";\n',
            one='import { b } from "./main.js";\nexport const a = 1;\n',
        )


def test_a_name_that_is_not_exported_is_an_error():
    with pytest.raises(ValueError, match=r"main.js imports b, which one.js does not export"):
        joined(main='import { b } from "./one.js";\n', one="export const a = 1;\n")


@pytest.mark.parametrize(
    "line", ['import * as all from "./one.js";', "export let a = 1;", "export default 1;"]
)
def test_a_statement_of_another_shape_is_an_error(line):
    with pytest.raises(ValueError, match=r"main.js: not understood"):
        joined(main=f"{line}\n")


def test_the_pages_leave_no_module_out():
    codes = [
        bundled(entry, lambda name: (ASSETS / f"{name}.js").read_text("utf-8"))
        for entry in (ENTRY, page.ENTRY, compose_page.ENTRY)
    ]
    named = {one for code in codes for one in re.findall(r"^const modules_(\w+)", code, re.M)}
    assert set(MODULES) == named


def test_no_export_is_there_for_nobody():
    texts = {name: (ASSETS / f"{name}.js").read_text("utf-8") for name in MODULES}
    exported = {(name, one) for name, text in texts.items() for one in EXPORT.findall(text)}
    imported = {
        (source, one.strip())
        for text in texts.values()
        for names, source in re.findall(r'^import \{([^}]*)\} from "\./(\w+)\.js"', text, re.M)
        for one in names.split(",")
        if one.strip()
    }
    assert set() == exported - imported
