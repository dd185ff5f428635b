"""Op specs: ``conv_fwd+bias+relu: n=1..64*2 c=64 dtype=float,half`` → graphs.

    SPEC   = OPS [":" ITEM…]            items apart by blanks
    OPS    = CHAIN {"," CHAIN} | "family:" FAMILY | "all"
    CHAIN  = OP {"+" OP}
    ITEM   = KEY "=" VALUE {"," VALUE}  every combination of the values is a graph
    VALUE  = text | A..B | A..B+STEP | A..B*FACTOR

Two keys belong to no operation: ``shapes`` (classes of default shapes) and ``direction``.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from random import Random
from typing import TYPE_CHECKING, Any

from bench_schema.usage import nearest

import bench_run.graph.make.recipes.attention as attention
import bench_run.graph.make.recipes.conv as conv
import bench_run.graph.make.recipes.matmul as matmul
import bench_run.graph.make.recipes.norm as norm
import bench_run.graph.make.recipes.pointwise as pointwise
import bench_run.graph.make.recipes.quantize as quantize
import bench_run.graph.make.recipes.reduce as reduce
from bench_run.errors import GraphError, UsageError
from bench_run.graph import dtypes
from bench_run.graph.check import check
from bench_run.graph.make.build import Builder, Value
from bench_run.graph.make.names import rewritten
from bench_run.graph.make.operators import OPERATORS
from bench_run.graph.make.parameters import (
    MOST_GRAPHS,
    Params,
    SpecParameter,
    parse_value,
    show_value,
    written_out,
)
from bench_run.graph.make.recipes.joint import NEEDED, joint
from bench_run.graph.make.recipes.recipe import SHAPE_CLASSES, Recipe

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from bench_run.graph.model import Graph


_MODULES = (conv, norm, matmul, pointwise, reduce, attention, quantize)

OPS: dict[str, Recipe] = {recipe.name: recipe for module in _MODULES for recipe in module.RECIPES}
"""Every operation by its name, families together: hipDNN's nodes, then the table of operators."""

NODES = tuple(OPS)
"""Names of the operations that hipDNN's nodes do."""

for _name in NODES:
    _forward = OPS[_name]
    if _forward.backward and (_forward.family == "activations" or _name in NEEDED):
        _joint = joint(_forward, [OPS[each] for each in _forward.backward])
        OPS[_joint.name] = _joint
        OPS[_name] = replace(_forward, joint=_joint.name)
for _row in OPERATORS.values():
    for _direction in _row.directions:
        _recipe = _row.recipe(_direction)
        OPS[_recipe.name] = _recipe
    if _row.hipdnn and _row.gradients:
        _name = _row.name
        OPS[_name] = replace(
            OPS[_name],
            family=_row.family,
            backward=(f"{_name}_bwd",),
            joint=f"{_name}_fwd_bwd",
        )

ALIASES: dict[str, str] = {
    alias: recipe.name for recipe in OPS.values() for alias in recipe.aliases
}

FAMILIES: dict[str, tuple[str, ...]] = {
    family: tuple(r.name for r in OPS.values() if r.family == family and not r.only_after)
    for family in dict.fromkeys(recipe.family for recipe in OPS.values())
}
"""Family → its operations."""


def find(name: str, where: str) -> Recipe:
    """Return the recipe of a name or alias. Raises `UsageError` with the known names."""
    known = ALIASES.get(name, name)
    if known not in OPS:
        names = [each for each in (*OPS, *ALIASES) if not each.endswith("_bwd") or "bwd" in name]
        *some, last = get_close_matches(name, names, 3, 0.4) or ("",)
        words = " or ".join(filter(None, (", ".join(some), last)))
        did = f"did you mean {words}?" if words else "bench-run help operators lists all"
        raise UsageError(f"{where}: no operation {name!r}; {did}")
    return OPS[known]


def family(name: str, where: str) -> tuple[str, ...]:
    if name not in FAMILIES:
        known = nearest(name, FAMILIES, "bench-run coverage")
        raise UsageError(f"{where}: no family {name!r}{known}")
    return FAMILIES[name]


# Names of made graphs: ``OPS_SHAPE_DTYPE[_LAYOUT][_CHOICE…]``, stated in graphs/README.md.
#
# OPS joins the operations by ``+``. SHAPE joins the lengths, each behind its letter. What follows
# is shown only where it differs from the default, so two graphs that differ never share a name.

_AFTER_SHAPE = ("dtype", "layout")


def graph_name(ops: Iterable[str], parameters: Iterable[SpecParameter], params: Params) -> str:
    """Return the name of a chain of operations with these completed parameters."""
    rows = list(parameters)
    shape = "".join(_segment(row, params) for row in rows if _in_shape(row))
    fixed = (_segment(row, params) for key in _AFTER_SHAPE for row in rows if row.key == key)
    choices = (
        _segment(row, params)
        for row in rows
        if (row.key not in _AFTER_SHAPE and not _in_shape(row))
    )
    return "_".join(part for part in ("+".join(ops), shape, *fixed, *choices) if part)


def _in_shape(row: SpecParameter) -> bool:
    if row.code is None or row.kind not in ("int", "ints", "dims"):
        return False
    return len(row.code) == 1 or (row.kind == "dims" and row.code == "")


def _segment(row: SpecParameter, params: Params) -> str:
    value = params[row.key]
    if row.code is None or value is None:
        return ""
    usual = row.default if row.follows is None else params[row.follows]
    is_usual = usual is not None and show_value(value, row.kind) == show_value(usual, row.kind)
    if is_usual and not row.always:
        return ""
    if row.kind == "flag":
        return row.code if value else f"{row.code}0"
    return row.code + show_value(value, row.kind)


def chain_parameters(chain: tuple[Recipe, ...]) -> dict[str, SpecParameter]:
    """Return the parameters of a chain by key: all of the first operation, choices of the
    others."""
    rows = {row.key: row for row in chain[0].parameters}
    for recipe in chain[1:]:
        for row in recipe.parameters:
            if not row.shape and row.key not in ("dtype", "layout"):
                rows.setdefault(row.key, row)
    return rows


def check_chain(chain: tuple[Recipe, ...], where: str) -> None:
    """Refuse an operation that cannot stand at its place."""
    if chain[0].only_after:
        raise UsageError(f"{where}: {chain[0].name} follows another operation: conv_fwd+bias")
    for recipe in chain[1:]:
        if not recipe.chains:
            raise UsageError(f"{where}: {recipe.name} cannot follow another operation")


def make_graph(chain: tuple[Recipe, ...], given: Mapping[str, Any]) -> Graph:
    """Return the graph; `given` holds typed values by key, all of them known to the chain."""
    head = chain[0]
    rows = chain_parameters(chain)
    params = dict(head.complete(_defaults(head, given)))
    for recipe in chain[1:]:
        own = _defaults(recipe, given).items()
        params.update((key, choice) for key, choice in own if key in rows and key not in params)
    builder = Builder(params["dtype"])
    value: Value | None = None
    for place, recipe in enumerate(chain):
        builder.last = place == len(chain) - 1
        value = recipe.build(builder, _defaults(recipe, given) if place else params, value)
    return builder.graph(graph_name((r.name for r in chain), rows.values(), params))


def _defaults(recipe: Recipe, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the operation's parameters, each as given or at its default."""
    return {
        row.key: given[row.key] if row.key in given else recipe.defaults.get(row.key, row.default)
        for row in recipe.parameters
    }


DIRECTIONS = {
    "fwd": ("fwd",),
    "bwd": ("bwd",),
    "joint": ("joint",),
    "both": ("fwd", "bwd", "joint"),
}
"""``joint``: forward and backward in one execution."""

WINDOWS = {"r", "s", "t", "spatial", "window", "pad", "stride", "dilation", "groups"}
"""Parameters that random shapes leave as they are."""
_RANDOM = re.compile(r"random:(\d{1,4})")

Chain = tuple[Recipe, ...]
Item = tuple[str, tuple[str, ...]]
"""Key and the texts of its values, ranges written out."""


@dataclass(frozen=True)
class Spec:
    text: str
    chains: tuple[Chain, ...]
    items: tuple[Item, ...]
    shapes: tuple[str, ...] | None
    """Classes of default shapes that the spec names itself."""
    lenient: bool
    """A family or `all`: an operation takes the keys it knows, of its own choices."""


def make_graphs(
    spec: str,
    shapes: str = "common",
    direction: str | None = None,
    left_out: list[str] | None = None,
    seed: int = 0,
) -> tuple[Graph, ...]:
    """Return graphs of an op spec, in the order of its operations, shapes and values; names are
    unique.

    `shapes` names the classes of default shapes (``small``, ``common``, ``large``, ``skewed``,
    ``all``, ``random:N``, or several apart by commas) for a spec that gives no shape of its own; N
    random shapes follow from `seed`. `direction` (a key of `DIRECTIONS`) is for one that names no
    direction. `left_out` gets a sentence for each member of a family, or of all, that does not take
    the parameters. Raises `UsageError` for what the spec says wrong, `GraphError` for a graph that
    cannot be.
    """
    made: dict[str, Graph] = {}
    missing = [] if left_out is None else left_out
    for text in rewritten(spec, OPS, ALIASES):
        parsed = parse_spec(text, direction)
        classes = _shape_classes(shapes, "--shapes") if parsed.shapes is None else parsed.shapes
        for chain in parsed.chains:
            for graph in _made(parsed, chain, classes, missing, seed):
                made.setdefault(graph.name, check(graph, spec))
                if len(made) > MOST_GRAPHS:
                    raise UsageError(f"{spec}: more than {MOST_GRAPHS} graphs")
    if not made:
        why = f": {missing[0]}" if missing else ""
        raise UsageError(f"{spec}: no operation supports this{why}")
    return tuple(made.values())


def parse_spec(text: str, usual_direction: str | None = None) -> Spec:
    """Return the spec as a value. Raises `UsageError` for a name, key or form that is not known."""
    head, rest = text.strip(), ""
    match = re.fullmatch(r"\s*((?:family\s*:\s*)?[^:]*?)\s*(?::(.*))?", text, re.DOTALL)
    if match is not None:
        head, rest = re.sub(r"\s+", "", match[1]), match[2] or ""
    special: dict[str, tuple[str, ...]] = {}
    for word in rest.split():
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise UsageError(f"{text}: {word!r} is not KEY=VALUE")
        if value.endswith(","):
            items = rest.replace(",", " ").strip()
            raise UsageError(f"{text}: parameters are separated by spaces, not commas: {items}")
        if key in special:
            raise UsageError(f"{text}: {key} is given twice; separate several values by commas")
        special[key] = tuple(written_out(value, f"{text}: {key}"))
    lenient = head == "all" or head.startswith("family:")
    usual = None if usual_direction is None else (usual_direction,)
    direction = special.pop("direction", usual)
    classes = special.pop("shapes", None)
    chains = _chains(head, text, direction)
    if not chains:
        raise UsageError(f"{text}: nothing has the direction {' or '.join(direction or ())}")
    spec = Spec(
        text=text,
        chains=chains,
        items=tuple(special.items()),
        shapes=None if classes is None else _shape_classes(",".join(classes), text),
        lenient=lenient,
    )
    for key, _ in spec.items:
        known = [chain for chain in chains if key in chain_parameters(chain)]
        if not known or (len(known) < len(chains) and not lenient):
            lacking = next((c for c in chains if c not in known), chains[0])
            keys = ", ".join((*chain_parameters(lacking), "shapes", "direction"))
            name = "+".join(recipe.name for recipe in lacking)
            raise UsageError(f"{text}: {name} has no parameter {key!r}; choose from {keys}")
    return spec


def _chains(head: str, text: str, directions: tuple[str, ...] | None) -> tuple[Chain, ...]:
    for name in directions or ():
        if name not in DIRECTIONS:
            raise UsageError(f"{text}: direction={name}: choose from {', '.join(DIRECTIONS)}")
    wanted = None if directions is None else {w for name in directions for w in DIRECTIONS[name]}
    names = tuple(name for name, recipe in OPS.items() if not recipe.only_after)
    if head.startswith("family:"):
        names = family(head.removeprefix("family:"), text)
    if head == "all" or head.startswith("family:"):
        recipes = (OPS[name] for name in names)
        usual = {"fwd", "bwd"} if wanted is None else wanted
        return tuple((r,) for r in recipes if r.direction in usual)
    chains = (tuple(find(op, text) for op in part.split("+")) for part in head.split(","))
    return tuple(turned for chain in chains for turned in _turned(chain, wanted, text))


def _turned(chain: Chain, wanted: Container[str] | None, text: str) -> Iterator[Chain]:
    """Yield the chain itself, its gradients, or both."""
    check_chain(chain, text)
    if wanted is None:
        yield chain
        return
    first = chain[0]
    if "fwd" in wanted and first.direction == "fwd":
        yield chain
    if "bwd" in wanted:
        gradients = gradients_of(chain)
        if not gradients:
            raise UsageError(f"{text}: {'+'.join(r.name for r in chain)} has no backward operation")
        yield from ((OPS[name],) for name in gradients)
    if "joint" in wanted and first.joint is not None and len(chain) == 1:
        yield (OPS[first.joint],)
    elif wanted == {"joint"}:
        raise UsageError(f"{text}: {'+'.join(r.name for r in chain)} has no joint operation")


def gradients_of(chain: Chain) -> tuple[str, ...]:
    """Return the operations that are the gradients of a chain; a gradient is its own."""
    first = chain[0]
    if [recipe.name for recipe in chain] == ["conv_fwd", "bias"]:
        return (*first.backward, "conv_bgrad")
    if len(chain) > 1:
        return ()
    return first.backward or ((first.name,) if first.direction == "bwd" else ())


def _shape_classes(text: str, where: str) -> tuple[str, ...]:
    names = text.split(",")
    for name in names:
        if name not in (*SHAPE_CLASSES, "all") and _RANDOM.fullmatch(name) is None:
            choices = ", ".join((*SHAPE_CLASSES, "all", "random:N"))
            raise UsageError(f"{where}: no shapes {name!r}; choose from {choices}")
    return SHAPE_CLASSES if "all" in names else tuple(dict.fromkeys(names))


def _random_shapes(chain: Chain, count: int, seed: int) -> Iterator[str]:
    """Yield items of shapes whose lengths are 1/8 to 2 times those of the common shape, on a
    logarithmic scale. An operation and its gradients, which have the same common shape, get the
    same ones."""
    usual = chain[0].shapes["common"][0]
    rows = chain_parameters(chain)
    draw = Random(f"{seed} {re.findall('[0-9]+', usual)}")  # noqa: S311 - no secret
    kept = WINDOWS if "r=" in usual else WINDOWS - {"s", "t"}

    def drawn(length: str) -> str:
        return str(max(1, round(int(length) * 2 ** draw.uniform(-3, 1))))

    found: list[str] = []
    for _ in range(100 * count):
        items = []
        for item in usual.split():
            key, _, value = item.partition("=")
            lengths = value.split("x")
            changes = rows[key].shape and key not in kept
            items.append(f"{key}={'x'.join(map(drawn, lengths)) if changes else value}")
        text = " ".join(items)
        try:
            make_graph(chain, _typed(text, rows))
        except (UsageError, GraphError):
            continue
        found += [text] * (text not in found)
        if len(found) == count:
            break
    yield from found


def _typed(text: str, rows: Mapping[str, SpecParameter]) -> dict[str, Any]:
    pairs = (word.partition("=") for word in text.split())
    return {key: parse_value(rows[key], value, text) for key, _, value in pairs}


def _made(
    spec: Spec, chain: Chain, classes: tuple[str, ...], left_out: list[str], seed: int
) -> Iterator[Graph]:
    """Yield graphs of one chain. A default shape that a value does not fit (a layout of four axes,
    a volume) is passed over, as long as another one fits."""
    misfit: UsageError | None = None
    none_fits = True
    for given in _assignments(spec, chain, classes, seed):
        try:
            graph = make_graph(chain, given)
        except UsageError as error:
            misfit = error
            if _has_own_shape(spec, chain) and not spec.lenient:
                raise
        else:
            none_fits = False
            yield graph
    if not none_fits:
        return
    if misfit is not None and not spec.lenient:
        raise misfit
    name = "+".join(recipe.name for recipe in chain)
    left_out.append(f"{spec.text}: {name} is left out: {misfit or 'it has no such type'}")


PRODUCT = ("m", "n", "k")


def _refuse_part_of_a_product(spec: Spec, rows: Mapping[str, SpecParameter]) -> None:
    """Raise `UsageError` if some lengths of a matrix product are given and others are not: they
    would be the usual ones, of another product."""
    given = {key: ",".join(texts) for key, texts in spec.items if key in PRODUCT}
    missing = [key for key in PRODUCT if key not in given]
    if given and missing and rows.keys() >= set(PRODUCT) and not spec.lenient:
        some = next(iter(given.values()))
        whole = " ".join(f"{key}={given.get(key, some)}" for key in PRODUCT)
        raise UsageError(
            f"{spec.text}: a product has m, n and k, and {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not given: {whole}"
        )


def _has_own_shape(spec: Spec, chain: Chain) -> bool:
    rows = chain_parameters(chain)
    given = [key for key, _ in spec.items if key in rows and key != "spatial"]
    return spec.shapes is None and any(rows[key].shape for key in given)


def _of_rank(texts: list[str], ranks: tuple[str, ...]) -> list[str]:
    """Return the default shapes of a number of spatial axes; the parameters' own defaults if there
    are none."""
    kept = []
    for text in texts:
        said = dict(item.split("=") for item in text.split())
        if said.get("spatial", "3" if "d" in said else "2") in ranks:
            kept.append(text)
    return kept or [""]


def _assignments(
    spec: Spec, chain: Chain, classes: tuple[str, ...], seed: int
) -> Iterator[Mapping[str, Any]]:
    """Yield typed parameters of each graph: default shapes (if any) × every combination of
    values."""
    # The chain's parameters, `dtype` narrowed to the types that all its operations take.
    rows = chain_parameters(chain)
    types = tuple(t for t in chain[0].dtypes if all(t in r.dtypes for r in chain))
    rows = rows | {"dtype": replace(rows["dtype"], choices=types)}
    items = [(key, texts) for key, texts in spec.items if key in rows]
    values: list[list[Any]] = []
    _refuse_part_of_a_product(spec, rows)
    for key, texts in items:
        row, fitting = rows[key], texts
        if row.kind == "dims" and len(texts) > 1 and all(map(str.isdecimal, texts)):
            raise UsageError(
                f"{spec.text}: lengths of one shape are joined by x: {key}={'x'.join(texts)}; "
                "for several shapes of one length give --op again"
            )
        if spec.lenient and row.choices:
            plain = (dtypes.ALIASES.get(t, t) if row.kind == "dtype" else t for t in texts)
            fitting = tuple(name for name in plain if name in row.choices)
        values.append([parse_value(row, text, spec.text) for text in fitting])
    if math.prod(map(len, values)) > MOST_GRAPHS:
        raise UsageError(f"{spec.text}: more than {MOST_GRAPHS} graphs")
    usual: list[str] = []
    for name in classes:
        random = _RANDOM.fullmatch(name)
        drawn = () if random is None else _random_shapes(chain, int(random[1]), seed)
        usual += chain[0].shapes[name] if random is None else drawn
    if "spatial" in dict(items):
        usual = _of_rank(usual, dict(items)["spatial"])
    bases = [_typed(text, rows) for text in ([""] if _has_own_shape(spec, chain) else usual)]
    for base, combination in itertools.product(bases, itertools.product(*values)):
        yield {**base, **dict(zip((key for key, _ in items), combination, strict=True))}
