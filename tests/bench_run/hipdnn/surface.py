"""Writes the double's surface from hipDNN's, as it was read: `python -m
tests.bench_run.hipdnn.surface FILE`.

Of the three newest states every name, argument and enumerator is kept; what upstream's tests and
documents use and no binding file shows is the state *attested*. Of older states the names are kept:
they are refused, with one that they lack.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

STORED = Path(__file__).resolve().parents[2] / "doubles" / "hipdnn_frontend" / "surface.json"
STATES = ("newest", "dlpack", "sweep")
UNTOLD = "Attributes"
"""Classes of builders: of older states they are not kept."""


def compact(source):
    """What `STORED` holds, of the file as it was read."""
    releases = source["releases"]
    found = {state: _state(releases, state) for state in STATES}
    found["attested"] = _with_attested(found["newest"], releases["newest"]["attested_only"])
    older = {name: _names(releases, name) for name in releases if name not in STATES}
    whole = found["newest"]
    others = {state: _difference(whole, found[state]) for state in found if state != "newest"}
    return {"newest": whole, "others": others, "older": older}


def text_of(data):
    """JSON with a line for each class and function, so that changes can be read."""
    parts = [f'"newest": {{{_lines(data["newest"])}}}']
    others = ",\n".join(f'"{k}": {{{_lines(v)}}}' for k, v in data["others"].items())
    parts.append(f'"others": {{{others}}}')
    older = ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in data["older"].items())
    return "{" + ",\n".join([*parts, f'"older": {{{older}}}']) + "}\n"


def _lines(names):
    return ",\n".join(f'"{name}": {json.dumps(value)}' for name, value in names.items())


def _difference(whole, other):
    """Names whose value is another than in `whole`; None where it has none."""
    return {
        name: other.get(name)
        for name in dict.fromkeys((*whole, *other))
        if whole.get(name) != other.get(name)
    }


def _state(releases, state):
    functions = {f["name"]: {"calls": _calls(f)} for f in releases[state]["module"]}
    return functions | {name: _class(releases, state, name) for name in releases[state]["classes"]}


def _class(releases, state, name):
    found = releases[state]["classes"][name]
    while "same_as" in found:
        found = releases[found["same_as"]]["classes"][name]
    if "alias_of" in found:
        return {"alias": found["alias_of"]}
    if found["enum_values"]:
        return {"enum": found["enum_values"]}
    kinds = {}
    if found["constructors"]:
        kinds["new"] = [_arguments(call) for call in found["constructors"]]
    kinds["methods"] = {
        m["name"]: {"calls": _calls(m), **({"static": True} if m.get("static") else {})}
        for m in found["methods"]
    }
    kinds["fields"] = {p["name"]: _field(p) for p in found["properties"]}
    return kinds


def _field(found):
    kept = {"type": found["type"], "settable": found["settable"]}
    return kept | ({"default": found["default"]} if "default" in found else {})


def _calls(found):
    """The ways to call; None where they were not read."""
    if found["args"] is None:
        return None
    return [_arguments(one["args"]) for one in found.get("overloads") or [found]]


def _arguments(found):
    """Name (None: by position only), type and, where there is one, the default of each."""
    return [
        [a["name"], a["type"], *([a["default"]] if a.get("default") is not None else [])]
        for a in found
    ]


def _with_attested(newest, extra):
    found = json.loads(json.dumps(newest))
    for row in extra:
        place = found[row["class"]]
        if "method" in row:
            place["methods"][row["method"]["name"]] = {"calls": _calls(row["method"])}
        if "property" in row:
            place["fields"][row["property"]["name"]] = _field(row["property"])
    return found


def _names(releases, state):
    return sorted(
        name
        for name in dotted(_state(releases, state))
        if not name.partition(".")[0].endswith(UNTOLD)
    )


def dotted(surface):
    """Every member of a surface as a dotted name, those of the classes included."""
    for name, found in surface.items():
        yield name
        for member in (
            *found.get("enum", ()),
            *found.get("methods", ()),
            *found.get("fields", ()),
        ):
            yield f"{name}.{member}"


if __name__ == "__main__":
    STORED.write_text(text_of(compact(json.loads(Path(sys.argv[1]).read_text()))))
