"""The engine: a device, its stream, a handle of cuDNN, and how graphs become plans."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench_run.engines.base import (
    EngineAbilities,
    knobs_of_variant,
)
from bench_run.engines.cudnn.library import load, new_graph, refusals, versions
from bench_run.engines.cudnn.lowering import Lowering, host_scalars
from bench_run.engines.cudnn.plans import (
    NOT_CHOSEN,
    Built,
    Choice,
    build,
    candidates,
    choices,
    described_by,
    knob_values,
    knobs_taken,
    names,
    prepare,
    read_choice,
    read_knobs,
)
from bench_run.engines.cudnn.rewrite import rewrite
from bench_run.engines.cudnn.views import views
from bench_run.engines.device_engine import DeviceEngine
from bench_run.engines.spec import refuse_unknown
from bench_run.errors import EngineError, EngineUnavailableError, UnsupportedGraphError
from bench_run.streams.cuda import open_stream
from bench_run.streams.cuda_driver import device_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import EngineOptions, EngineSpec
    from bench_run.graph.model import Graph
    from bench_run.streams.cuda import CudaStream

NAME = "cudnn"
NO_TF32 = "NVIDIA_TF32_OVERRIDE"
MOST_VARIANTS = 200
MOST_ALTERNATIVES = 8


class CudnnEngine(DeviceEngine):
    def __init__(
        self,
        cudnn: Any,
        stream: CudaStream,
        spec: EngineSpec,
        options: EngineOptions,
        choice: Choice,
    ) -> None:
        super().__init__(NAME, stream, options)
        self._cudnn, self._choice, self._math = cudnn, choice, options.math
        self._handle = cudnn.create_handle()
        cudnn.set_stream(handle=self._handle, stream=stream.handle.value)
        self._versions = versions(cudnn)
        self._devices = device_count()
        knobs = {name: str(value) for name, value in choice.knobs.items()}
        self.facts = self.device_facts(spec, self._versions, knobs)

    @property
    def abilities(self) -> EngineAbilities:
        return EngineAbilities(
            choices=self.choices,
            alternatives=self.alternatives,
            plans=self.plans,
            knob_values=self.knob_values,
            devices=self._devices,
            part=self.part,
            arrange=self.arrange,
            capture=self.capture,
        )

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """Return one variant, or with ``cudnn:all`` one for each plan that is listed for the
        graph."""
        return self.plans(graph) if self._choice.every else ({},)

    def plans(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """Return plans in the order of the heuristics."""
        listed = self._lowered(graph, Choice(every=True)).listed
        unique = dict.fromkeys(listed)
        return tuple({"plan": name} for name in unique)[:MOST_VARIANTS]

    def choices(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """Return the full plans that fit the spec, for `bench-run engines GRAPH`."""
        plain = self._choice == Choice()
        built = self._lowered(graph, Choice(every=True) if plain else self._choice)
        rows = choices(built.pygraph, built.listed, built.places)
        engine = self._choice.engine
        taken = () if engine is None else (knobs_taken(built.pygraph, engine),)
        return (*taken, *rows)

    def alternatives(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """Return variants worth trying for the best plan: the heuristic's first ones."""
        listed = self._lowered(graph, Choice()).listed
        return tuple({"plan": name} for name in dict.fromkeys(listed))[:MOST_ALTERNATIVES]

    def knob_values(
        self, graph: Graph, variant: Mapping[str, str]
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the values of knobs of the spec's engine."""
        engine = self._choice.engine
        if engine is None:
            raise UnsupportedGraphError("cudnn: name the engine whose knobs are varied: cudnn:ID")
        built = self._lowered(graph, self._choice_of(variant))
        return knob_values(built.pygraph, engine)

    def build(self, graph: Graph, variant: Mapping[str, str]) -> Built:
        return self._lowered(graph, self._choice_of(variant))

    def _choice_of(self, variant: Mapping[str, str]) -> Choice:
        choice = self._choice
        if "plan" in variant:
            return replace(choice, every=False, name=variant["plan"])
        varied = read_knobs(knobs_of_variant(variant))
        return replace(choice, knobs={**choice.knobs, **varied}) if varied else choice

    def _lowered(self, graph: Graph, choice: Choice) -> Built:
        """Return the plan from the heuristics' list, or made from the engine's id and knobs.

        A listed plan is preferred: it may have knobs that the frontend cannot set.
        """
        if choice.name is not None:
            built = self._named(graph, choice.name) or self._listed(graph, Choice(), explicit=False)
            if choice.name in built.listed:  # mostly in the short list of a run without a choice
                return replace(built, places=candidates(built.listed, choice))
        if choice.engine is None:
            built = self._listed(graph, choice, explicit=False)
            return replace(built, places=candidates(built.listed, choice))
        with suppress(UnsupportedGraphError):
            built = self._listed(graph, choice, explicit=False)
            return replace(built, places=candidates(built.listed, choice))
        built = self._listed(graph, choice, explicit=True)
        return replace(built, places=list(range(len(built.listed))))

    def _named(self, graph: Graph, name: str) -> Built | None:
        """Return a plan made from what its name says, which takes no heuristics; None if the name
        does not say enough, or means another plan."""
        wanted = described_by(name)
        if wanted is None:
            return None
        try:
            built = self._listed(graph, wanted, explicit=True)
        except (UnsupportedGraphError, EngineError):
            return None
        same = [described_by(made) for made in built.listed] == [wanted]
        return replace(built, listed=[name]) if same else None

    def _listed(self, graph: Graph, choice: Choice, *, explicit: bool) -> Built:
        canonical = rewrite(graph)
        described = views(canonical)
        what = ", ".join(dict.fromkeys(node.label for node in graph.nodes))
        kinds = self._cudnn.data_type
        pygraph = new_graph(
            self._cudnn,
            self._handle,
            canonical,
            name=graph.name or "graph",
            io_data_type=kinds.NOT_SET,
            intermediate_data_type=kinds.FLOAT,
            compute_data_type=kinds.FLOAT,
        )
        lowering = Lowering(self._cudnn, pygraph, canonical, described)
        with refusals(what):
            lowering.lower()
        prepare(self._cudnn, pygraph, choice, what, explicit=explicit)
        # Leaves out plans that round more than was asked for. Matrix products obey the
        # variable of `environment` instead.
        notes = self._cudnn.numerical_note
        left_out = [] if self._math == "fast" else [notes.REDUCED_PRECISION_REDUCTION]
        if self._math == "fp32" and _convolves_float(canonical):
            left_out += [notes.TENSOR_CORE, notes.DOWN_CONVERT_INPUTS]
        if left_out:
            pygraph.deselect_numeric_notes(left_out)
        host = host_scalars(canonical)
        return Built(
            graph=graph,
            scalars=tuple(t for t in canonical.tensors if t.uid in host),
            views=described,
            numbers=lowering.numbers,
            pygraph=pygraph,
            listed=names(pygraph),
            places=[],
            chosen=NOT_CHOSEN,
            math=math_of(canonical, self._math),
            backend=self._versions["cudnn"],
            handle=self._handle,
        )

    def complete(self, built: object) -> Built:
        assert isinstance(built, Built)
        what = ", ".join(dict.fromkeys(node.label for node in built.graph.nodes))
        chosen = build(built.pygraph, built.places, built.listed, what)
        return replace(built, chosen=chosen)

    def close(self) -> None:
        super().close()
        self._cudnn.destroy_handle(self._handle)


def _convolves_float(graph: Graph) -> bool:
    """Return True if a convolution computes from float32 operands: tensor cores would round
    them."""
    return any(
        node.type.startswith("Convolution")
        and any(graph.by_uid[uid].data_type == "float" for uid in node.inputs.values())
        for node in graph.nodes
    )


def math_of(graph: Graph, asked: str) -> str:
    """Return the arithmetic of the plan: float32 matrix products take TF32 in any plan, if the
    process was started without the variable of `environment`."""
    multiplies = any(
        node.type == "MatmulAttributes"
        and any(graph.by_uid[uid].data_type == "float" for uid in node.inputs.values())
        for node in graph.nodes
    )
    strict = os.environ.get(NO_TF32) == "0"
    return "tf32" if asked == "fp32" and multiplies and not strict else asked


def open_engine(spec: EngineSpec, options: EngineOptions) -> CudnnEngine:
    refuse_unknown(spec, options=())
    choice = read_choice(spec.id, options.knobs)
    stream = open_stream(options.device, options.cache, options.timer, options.pass_bytes)
    cudnn = load()
    try:
        return CudnnEngine(cudnn, stream, spec, options, choice)
    except RuntimeError as error:
        raise EngineUnavailableError(f"cuDNN does not start: {error}") from error
