"""Planted worlds: a pipeline file, its graphs, and documents whose times follow from known numbers.

Every layer reads `x` (and `b`, where it has two writers) and writes `y`, 2×8×4×4 in float. What a
configuration takes is the sum of its layers, its seams and its conversions, times the state of the
machine in each round.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from bench_schema import files
from bench_schema.document import Telemetry
from bench_schema.pipeline import Input, Layer, Link, Pipeline, pipeline_text

from bench_compare.compose.answer import compose
from bench_compare.compose.setup import Question
from bench_compare.model import Source
from tests.bench_compare import build

DIMS = (2, 8, 4, 4)
SHAPE = "n2c8h4w4"
STEADY = (1.0,) * 6
PORTS = ("x", "b")


@dataclass
class World:
    """Times in nanoseconds. `alone` by layer, then by configuration: an engine, or an engine and
    ``key=value`` words."""

    alone: dict[str, dict[str, int]]
    writers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Chained in order where it does not say."""
    seams: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By writer, reader and engine; 0 elsewhere."""
    convert: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By engine: what nchw → nhwc and back take."""
    joules: dict[tuple[str, str], float] = field(default_factory=dict)
    """By layer and configuration."""
    errors: dict[tuple[str, str], float] = field(default_factory=dict)
    states: tuple[float, ...] = STEADY
    repeats: dict[str, int] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)
    """Layers that are the graph of another one."""

    @property
    def order(self):
        return tuple(self.alone)

    def reads(self, layer):
        place = self.order.index(layer)
        return self.writers.get(layer, self.order[place - 1 : place] if place else ())

    def graph(self, layer):
        return self.same.get(layer, layer)


def fingerprint(layer, variant=()):
    return build.fingerprint(" ".join((layer, *variant)))


def graph_text(name):
    tensors = [
        {"uid": n, "name": port, "data_type": "float", "dims": DIMS, "strides": (128, 16, 4, 1)}
        for n, port in enumerate(("x", "b", "y"))
    ]
    node = {
        "inputs": {"in_0_tensor_uid": 0, "in_1_tensor_uid": 1},
        "outputs": {"out_0_tensor_uid": 2},
    }
    return json.dumps({"name": name, "tensors": tensors, "nodes": [node]})


def write_pipeline(world, folder):
    layers = []
    for layer in world.order:
        name = world.graph(layer)
        (folder / f"{name}.json").write_text(graph_text(name))
        links = {port: Link("y", one) for port, one in zip(PORTS, world.reads(layer), strict=False)}
        layers.append(
            Layer(
                layer,
                file=folder / f"{name}.json",
                links=links or {"x": Link("image")},
                repeat=world.repeats.get(layer, 1),
                fingerprint=fingerprint(name),
            )
        )
    made = Pipeline(
        "net", "planted", tuple(layers), (Input("image"),), (Link("y", world.order[-1]),)
    )
    path = folder / "net.toml"
    path.write_text(pipeline_text(made, folder))
    return path


def rounds(world, time_ns, joules=None):
    found = []
    for index, state in enumerate(world.states):
        one = build.round_(index, {"e2e_ns": [round(time_ns * state)] * 5})
        idle = Telemetry(power_w=50.0)
        found.append(replace(one, energy_j_per_iteration=joules, telemetry_before=idle))
    return found


def split(configuration):
    engine, *words = configuration.split()
    return engine, dict(word.split("=", 1) for word in words)


def case_of(world, layer, configuration):
    engine, variant = split(configuration)
    name = world.graph(layer)
    rewrites = [f"{k}={v}" for k, v in variant.items() if k in ("layout", "dtype")]
    error = world.errors.get((layer, configuration), 1e-7)
    passed = build.validation()
    output = replace(passed.outputs[0], relative_l2=error)
    return build.case(
        name,
        rounds(world, world.alone[layer][configuration], world.joules.get((layer, configuration))),
        engine=engine,
        variant=variant,
        fingerprint=fingerprint(name, rewrites),
        path="#".join((f"{name}.json", *rewrites)),
        validation=replace(passed, outputs=(output,)),
    )


def chain_case(world, name, layers, time_ns, engine, path, joules=None):
    made = build.case(
        name,
        rounds(world, time_ns, joules),
        engine=engine,
        family="chain",
        path=path,
        fingerprint=fingerprint(name),
    )
    prints = tuple(fingerprint(world.graph(one)) for one in layers)
    return replace(made, graph=replace(made.graph, layers=prints))


def pairs(world):
    """What reads, and what runs after, something else."""
    for place, reader in enumerate(world.order):
        near = world.order[place - 1 : place] if place else ()
        yield from ((writer, reader) for writer in dict.fromkeys((*near, *world.reads(reader))))


def pair_cases(world):
    for writer, reader in pairs(world):
        for engine in world.alone[reader]:
            if engine in world.alone[writer] and " " not in engine:
                seam = world.seams.get((writer, reader, engine), 0)
                time = world.alone[writer][engine] + world.alone[reader][engine] + seam
                yield chain_case(
                    world,
                    f"net:{writer}+{reader}",
                    (writer, reader),
                    time,
                    engine,
                    f"net.toml#{writer}+{reader}",
                )


def convert_cases(world):
    for engine, times in world.convert.items():
        for (source, target), time in zip((("nchw", "nhwc"), ("nhwc", "nchw")), times, strict=True):
            name = f"convert_{SHAPE}_float_{source}_to{target}"
            yield build.case(
                name,
                rounds(world, time),
                engine=engine,
                family="identity",
                validation=build.validation(),
            )


def parts(world, **changes):
    """The document of `--seams`, a tuning and conversions in one."""
    alone = [
        case_of(world, layer, configuration)
        for layer in world.order
        if layer not in world.same
        for configuration in world.alone[layer]
    ]
    cases = {
        (c.graph.fingerprint, c.engine, str(c.variant)): c
        for c in (*alone, *pair_cases(world), *convert_cases(world))
    }
    return build.document(list(cases.values()), **changes)


def truth(world, engine):
    """What the whole takes on one engine: a seam for each layer, with the one before it."""
    total = 0
    for place, layer in enumerate(world.order):
        repeat = world.repeats.get(layer, 1)
        total += repeat * world.alone[layer][engine]
        if place:
            total += repeat * world.seams.get((world.order[place - 1], layer, engine), 0)
    return total


def chain(world, engine, factor=1.0):
    """The document of `--chain`."""
    time = round(truth(world, engine) * factor)
    layers = [one for one in world.order for _ in range(world.repeats.get(one, 1))]
    return build.document([chain_case(world, "net", layers, time, engine, "net.toml")])


def save(folder, name, document):
    files.save(folder / name, document)
    return str(folder / name)


def composed(world, folder, *documents, against=(), **asked):
    path = write_pipeline(world, folder)
    made = documents or (parts(world),)
    sources = tuple(Source(f"doc{n}.json", one, "bench") for n, one in enumerate(made))
    chains = tuple(Source(f"chain{n}.json", one, "bench") for n, one in enumerate(against))
    return compose(Question(sources, path, chains, **asked))


CHAIN = World(
    {"a": {"e": 1000}, "b": {"e": 2000}, "c": {"e": 500}},
    seams={("a", "b", "e"): 70, ("b", "c", "e"): -130},
)
STATES = (1.0, 1.3, 0.9, 1.1, 1.2, 0.8)
TWO = World(
    {"a": {"e": 1000, "f": 900}, "b": {"e": 1000, "f": 1100}, "c": {"e": 1000, "f": 800}},
    seams={("a", "b", "e"): 5, ("b", "c", "e"): 5, ("a", "b", "f"): -5, ("b", "c", "f"): -5},
)
LAYOUTS = World(
    {
        "a": {"e": 1000, "e layout=nhwc": 700},
        "b": {"e": 1000, "e layout=nhwc": 1150},
        "c": {"e": 1000, "e layout=nhwc": 700},
    },
    convert={"e": (100, 120)},
)
