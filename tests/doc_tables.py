"""The tables of `graphs/README.md` and `graphs/FORMAT.md`, made from the operations tables.

`python -m tests.doc_tables` (`make tables`) writes them between their markers
``<!-- table NAME -->`` and ``<!-- end -->``; a test holds the pages against the code.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

from bench_run.commands.usage import FLAGS, entry
from bench_run.graph.make.names import FRAMEWORKS, names, plain, table
from bench_run.graph.make.operators import OPERATORS
from bench_run.graph.make.operators.row import TYPES
from bench_run.graph.make.parameters import expected, show_value
from bench_run.graph.make.spec import NODES, OPS, make_graphs
from bench_run.graph.operations import OPERATIONS, POINTWISE_MODES
from tests.exploits.cheats import not_seen

GRAPHS = Path(__file__).resolve().parents[1] / "graphs"
OPERATORS_PAGE = GRAPHS.parent / "bench_run" / "docs" / "operators.md"
CONFIG_PAGE = OPERATORS_PAGE.with_name("config.md")
VALIDATION_PAGE = OPERATORS_PAGE.with_name("validation.md")
PAGES = (
    *(GRAPHS / "README.md", GRAPHS / "FORMAT.md"),
    *(OPERATORS_PAGE, CONFIG_PAGE, VALIDATION_PAGE),
)
VALUES = Path(__file__).parent / "data" / "operator_values.json"
"""Written by `tests.benchmarks.operator_values`."""
_TABLE = re.compile(r"(<!-- table ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled_in(text):
    """A page with its tables as the code has them."""
    return _TABLE.sub(lambda match: f"{match[1]}{_table(match[2])}\n{match[3]}", text)


def _table(name):
    tables = {
        "operations": operations_table,
        "parameters": parameters_table,
        "modes": modes_list,
        "values": values_table,
        "names": names_table,
        "operators beyond": beyond_table,
        "rare settings": settings_table,
        "not seen": not_seen,
    }
    return tables[name]() if name in tables else node_types(name.split())


def settings_table():
    """The settings that `bench-run help all` does not list."""
    rows = ["| Flag | Meaning |", "| --- | --- |"]
    for row in FLAGS.values():
        if row.rare:
            names = " ".join(filter(None, (row.flag, row.metavar)))
            text = " ".join(line.strip() for line in entry(row).splitlines())
            meaning = text.partition(names)[2].strip().replace("|", "\\|")
            rows.append(f"| `{names}` | {meaning} |")
    return "\n".join(rows)


def node_types(families):
    """Node types of these families with ports and parameters."""
    rows = ["| Type | Inputs | Outputs | Parameters |", "| --- | --- | --- | --- |"]
    known = (row for row in OPERATIONS.values() if row.family in families)
    return "\n".join((*rows, *(_node_type(row) for row in known)))


def _node_type(row):
    ports = [" ".join(map(_port, ports)) for ports in (row.inputs, row.outputs)]
    parameters = "; ".join(map(_parameter, row.parameters)) or "none"
    return f"| `{row.type}` | {ports[0]} | {ports[1]} | {parameters} |"


def _port(port):
    optional = "" if port.required else "?"
    return f"`{port.name}`{optional}" + ("…" if port.many or port.numbered else "")


def _parameter(parameter):
    name = f"`{parameter.name}`" + ("" if parameter.required else "?")
    if parameter.name == "operation":
        return f"{name} (a mode)"
    return f"{name} ({', '.join(parameter.choices) or parameter.kind})"


def modes_list():
    """The pointwise modes by what they read."""
    groups = {
        "One operand": (1, False),
        "Two operands": (2, False),
        "Gradients, `in_0` is dy and `in_1` the input of the forward operation": (2, True),
    }
    lines = []
    for title, kind in groups.items():
        names = [f"`{n}`" for n, m in POINTWISE_MODES.items() if (m.arity, m.backward) == kind]
        text = " ".join(names)
        wrapped = textwrap.fill(text, 98, initial_indent="  ", subsequent_indent="  ")
        lines += [f"- {title}:", wrapped]
    return "\n".join(lines)


def operations_table():
    """Every operation: its family, other names, gradients, and what it computes."""
    rows = ["| Family | Operation | Gradients | What it computes |", "| --- | --- | --- | --- |"]
    return "\n".join((*rows, *(_operation_row(OPS[name]) for name in NODES)))


def parameters_table():
    """Every parameter once, with the operations that have it in this meaning."""
    rows = ["| Key | Value | Meaning | Operations |", "| --- | --- | --- | --- |"]
    users = {}
    for recipe in map(OPS.get, NODES):
        for row in recipe.parameters:
            if row.key != "dtype":
                users.setdefault((row.key, _values(row), row.help), []).append(recipe)
    lines = (
        f"| `{key}` | {values} | {words} | {_users(recipes)} |"
        for (key, values, words), recipes in users.items()
    )
    return "\n".join((*rows, *lines))


def beyond_table():
    """Every operator beyond hipDNN's nodes."""
    rows = [
        "| Category | Operator | Directions | Types | Engines | Keys |",
        "|---|---|---|---|---|---|",
    ]
    for row in OPERATORS.values():
        ways = "".join({"fwd": "f", "bwd": "b", "joint": "j"}[way] for way in row.directions)
        kinds = next((k for k, v in TYPES.items() if v == row.dtypes), " ".join(row.dtypes))
        kinds = kinds.replace("numbers", "floats whole").replace("_and_", " ")
        engines = "n c" if "cuda" in row.refused else "n t"
        keys = " ".join(f"`{key}={_usual(row, key)}`" for key in _own_keys(row))
        rows.append(f"| {row.family} | `{row.name}` | {ways} | {kinds} | {engines} | {keys} |")
    return "\n".join(rows)


def _own_keys(row):
    lengths = {word.partition("=")[0] for word in row.shapes[0].split()}
    return [key for key in row.params if key not in lengths]


def _usual(row, key):
    if key in row.choices:
        return row.choices[key][0]
    value = row.params[key]
    return "…" if value is None else f"{value:.4g}" if isinstance(value, float) else value


def names_table():
    """Borrowed names whose spelling or keys are not ours."""
    parts = []
    for framework, title in FRAMEWORKS.items():
        rows = [f"| [{title}]({table()['sources'][framework]}) | Here | Keys |", "|---|---|---|"]
        rows += (
            f"| `{row.spelled}` | `{row.ours}` | {_keys_of(row)} |"
            for row in names()
            if row.framework == framework
            and (row.keys or row.cases or plain(row.spelled) != plain(row.ours))
        )
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def _keys_of(row):
    words = []
    for key in row.keys.values():
        if key.how == ">":
            words.append(f"{key.theirs}→{key.ours}")
        elif key.how == "=":
            words.append(f"{key.theirs}={key.ours}")
        else:
            words.append(f"{key.theirs}")
        words[-1] += "!" * key.needed
    words += [f"{key}={value}: `{case.ours}`" for (key, value), case in row.cases.items()]
    return _cell(" ".join(words))


def values_table():
    """Operators whose time depends on their values, and how their inputs are drawn."""
    rows = ["| Operator | Engine | Factors | Drawn as |", "|---|---|---|---|"]
    found = json.loads(VALUES.read_text(encoding="utf-8"))
    names = sorted({name for by_name in found.values() for name in by_name})
    for name in names:
        (graph, *_) = make_graphs(name)
        custom = graph.nodes[0].custom
        drawn = "" if custom is None else " ".join(dict.fromkeys(custom.init.values()))
        for engine, by_name in found.items():
            factors = ", ".join(
                f"{k} {v:g}" for k, v in by_name.get(name, {}).items() if k != "denormal"
            )
            if factors:
                rows.append(f"| `{name}` | {engine} | {factors} | {drawn} |")
    return "\n".join((*rows, *_denormal(found)))


def _denormal(found):
    """Denormal numbers concern many: a paragraph for each engine."""
    for engine, by_name in found.items():
        factors = {name: row["denormal"] for name, row in by_name.items() if "denormal" in row}
        if factors:
            names = " ".join(f"`{name}`" for name in factors)
            text = f"Denormal numbers on {engine}, up to {max(factors.values()):.0f} ×: {names}"
            yield "\n" + "\n".join(textwrap.wrap(text, 80, break_on_hyphens=False))


def _operation_row(recipe):
    names = " ".join(f"`{name}`" for name in (recipe.name, *recipe.aliases))
    gradients = " ".join(f"`{name}`" for name in recipe.backward)
    return f"| {recipe.family} | {names} | {gradients} | {_cell(recipe.summary)} |"


def _values(row):
    words = expected(row).removeprefix("one of ")
    usual = "" if row.default is None else f" ({show_value(row.default, row.kind)})"
    return _cell(words + usual)


def _users(recipes):
    """Families where all operations of one have it, else names."""
    words = []
    for family in dict.fromkeys(recipe.family for recipe in recipes):
        users = [recipe.name for recipe in recipes if recipe.family == family]
        every = [n for n in NODES if OPS[n].family == family and not OPS[n].only_after]
        words += [f"all of {family}"] if set(every) <= set(users) and len(every) > 1 else users
    return ", ".join(words)


def _cell(text):
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled_in(page.read_text(encoding="utf-8")), encoding="utf-8")
