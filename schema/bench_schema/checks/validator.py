"""Documents against the JSON Schema of their version: quick to accept, standard when refusing.

Types compiled from the schema accept valid values (`acceptor`). jsonschema checks the others and
writes the sentence, case by case: what is wrong with one is often wrong with all. It is imported
when something is refused, as that takes longer than reading most documents.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from bench_schema.checks.acceptor import accepts, load_schema
from bench_schema.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

SHOWN = 60
"""Characters of an offending value that a message repeats."""
TOO_DEEP = "arrays or objects are nested hundreds of levels deep"


@functools.cache
def validator(version: int) -> Validator:
    """Return the jsonschema validator of one version of the document."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(load_schema(version))


def check(
    tree: Any, version: int, where: str, name: str = "", inside: tuple[str | int, ...] = ()
) -> None:
    """Refuse a tree of plain values that is not valid by ``#/$defs/name`` (``""``: the root);
    `inside`: where in the document it is."""
    if accepts(version, name, tree):
        return
    from jsonschema.exceptions import best_match

    checking = validator(version)
    if name:
        definitions = load_schema(version)["$defs"]
        checking = checking.evolve(schema={"$ref": f"#/$defs/{name}", "$defs": definitions})
    try:
        error = best_match(checking.iter_errors(tree))
        what = "" if error is None else sentence(error)
    except RecursionError:
        raise SchemaError(f"{where}: {path_text(inside)}", TOO_DEEP) from None
    if error is not None:
        raise SchemaError(f"{where}: {path_text((*inside, *error.absolute_path))}", what)


def check_document(tree: Any, version: int, where: str) -> None:
    """Check a whole document. The first wrong case is named, as a fault is often in all of them,
    and the search for the best sentence in 10,000 cases takes 10 s."""
    if accepts(version, "", tree):
        return
    cases = tree.get("cases") if isinstance(tree, dict) else None
    if not isinstance(cases, list):
        check(tree, version, where)
        return
    check({**tree, "cases": []}, version, where)
    for number, case in enumerate(cases):
        check_case(case, version, where, number)


def check_case(tree: Any, version: int, where: str, number: int) -> None:
    """Check the case of that number in a document."""
    check(tree, version, where, "Case", ("cases", number))


def path_text(path: Any) -> str:
    """Return ``cases[3].rounds[0].series`` for the parts of a path."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the document"


def sentence(error: ValidationError) -> str:
    """Return what was expected and what was found, in a few words."""
    describe = SENTENCES.get(str(error.validator))
    return error.message if describe is None else describe(error)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _choices(values: Any) -> str:
    return ", ".join(_shown(value) for value in values)


def type_sentence(error: Any) -> str:
    wanted = error.validator_value
    kinds = wanted if isinstance(wanted, str) else " or ".join(wanted)
    return f"expected {kinds}, found {_shown(error.instance)}"


def required_sentence(error: Any) -> str:
    missing = [name for name in error.validator_value if name not in error.instance]
    return f"lacks {_choices(missing)}"


def additional_sentence(error: Any) -> str:
    known = error.schema.get("properties", {})
    unknown = [name for name in error.instance if name not in known]
    return f"unknown field {_choices(unknown)}; known are {', '.join(known)}"


SENTENCES: dict[str, Callable[[Any], str]] = {
    "type": type_sentence,
    "required": required_sentence,
    "additionalProperties": additional_sentence,
    "enum": lambda e: f"expected one of {_choices(e.validator_value)}, found {_shown(e.instance)}",
    "const": lambda e: f"expected {_shown(e.validator_value)}, found {_shown(e.instance)}",
    "minimum": lambda e: f"expected at least {e.validator_value}, found {_shown(e.instance)}",
    "maximum": lambda e: f"expected at most {e.validator_value}, found {_shown(e.instance)}",
    "minLength": lambda e: f"expected text that is not empty, found {_shown(e.instance)}",
    "pattern": lambda e: f"expected text like {e.validator_value}, found {_shown(e.instance)}",
    "anyOf": lambda e: f"{_shown(e.instance)} is not one of the allowed kinds",
}
"""One sentence for each keyword that the schemas use; another one keeps jsonschema's words."""
