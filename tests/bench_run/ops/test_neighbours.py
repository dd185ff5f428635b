"""Default inputs tell an operator from simpler wrong ones: nothing, a constant, its input, and its
neighbours of the same family."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from bench_run.errors import BenchRunError
from bench_run.graph.make import OPS, make_graphs
from bench_run.graph.make.operators import is_operator, row_of
from bench_run.operators.formulas import evaluate_operator
from bench_run.reference import evaluate
from bench_run.tensors.layout import logical_view, to_storage
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.validate.expected import custom_overrides
from bench_run.validate.outputs import OutputChecker
from bench_run.validate.tolerance import Circumstances, tolerances

SAME = (
    # one meaning under several names, also of the gradients
    {"round", "rint"},
    {"fix", "trunc"},
    {"take", "embedding"},
    {"pick", "batch_take"},
    {"logical_xor", "cmp_neq"},
)
WAYS = (
    # the same work forward and backward
    {"neg"},
    {"degrees"},
    {"radians"},
    {"flip"},
    {"tril"},
    {"transpose", "swapaxes"},
    {"expand_dims", "squeeze"},
    {"copy", "as_in_context", "asnumpy", "reshape", "reshape_like"},
)
COVERED = {
    # the neighbour does the same, and more on values that are none of the operator's
    ("relu", "relu6"),
    ("sum", "nansum"),
    ("prod", "nanprod"),
    ("reduce_mul", "reduce_mul_no_zeros"),
}


def base(name: str) -> str:
    return name.removesuffix("_bwd").removesuffix("_fwd")


def same(name: str, other: str) -> bool:
    """True if both do the same on all values that the first one takes."""
    mine, theirs = base(name), base(other)
    if any({mine, theirs} <= group for group in WAYS):
        return True
    alike = any({mine, theirs} <= group for group in SAME) or (mine, theirs) in COVERED
    return alike and name.removeprefix(mine) == other.removeprefix(theirs)


NAMES = [name for name, recipe in OPS.items() if not recipe.only_after]


class Case:
    def __init__(self, name: str) -> None:
        self.name = name
        self.graph = make_graphs(name, "small")[0]
        self.inputs = make_inputs(self.graph, 3)
        self.views = {
            uid: logical_view(storage, self.graph.by_uid[uid])
            for uid, storage in self.inputs.items()
        }
        self.expected = evaluate(self.graph, self.views)
        overrides = dict(custom_overrides(self.graph))
        around = Circumstances(inputs=self.inputs, expected=self.expected)
        limits = tolerances(self.graph, circumstances=around, overrides=overrides)
        self.checker = OutputChecker(self.graph, self.expected, limits, 1, {})

    @property
    def signature(self):
        def kinds(tensors):
            return tuple((t.dims, t.data_type) for t in tensors)

        return kinds(self.graph.inputs), kinds(self.graph.outputs), OPS[self.name].family

    def passes(self, results) -> bool:
        """Results: arrays by place of the output."""
        storages = {
            tensor.uid: to_storage(np.asarray(found).reshape(tensor.dims), tensor)
            for tensor, found in zip(self.graph.outputs, results, strict=True)
        }
        return self.checker.check(storages).mismatched == 0


@cache
def case_of(name: str) -> Case:
    return Case(name)


def results_of(case: Case, views) -> list[np.ndarray]:
    """The results of the operator on inputs in order; random ones are drawn."""
    given = dict(zip((t.uid for t in case.graph.inputs), views, strict=True))
    (node, *_) = case.graph.nodes
    with np.errstate(all="ignore"):
        if is_operator(node) and row_of(node)[0].numpy is not None:
            ports = dict(zip(node.custom.inputs, given.values(), strict=True))
            return list(evaluate_operator(node, ports, drawn=True).values())
        found = evaluate(case.graph, given)
    return [found[tensor.uid] for tensor in case.graph.outputs]


def simple(case: Case):
    """Name → results of what computes nothing."""
    first = [case.expected[t.uid] for t in case.graph.outputs]
    for word, value in (("zeros", 0), ("ones", 1)):
        yield word, [np.full(x.shape, value) for x in first]
    if max(x.size for x in first) == 1:
        return  # a right number is a constant too
    with np.errstate(all="ignore"):
        yield "the mean", [np.full(x.shape, np.mean(np.nan_to_num(x))) for x in first]
    for tensor in case.graph.inputs:
        x = case.views[tensor.uid]
        if x.shape == first[0].shape:
            yield f"its input {tensor.name}", [x, *first[1:]]


CONSTANT = {
    "zeros",
    "zeros_like",
    "ones",
    "ones_like",
    "full",
    "full_like",
    "shape_array",
    "size_array",
}
"""Operators whose right result is a constant."""
COPIES = {
    "identity",
    "convert",
    "copy",
    "as_in_context",
    "asnumpy",
    "asscalar",
    "astype",
    "shuffle",
    "reshape",
    "reshape_like",
    "add",
    "sub",
    "mod_bwd",
}
"""Operators whose right result is the input, or may be."""


@pytest.mark.parametrize("name", NAMES)
def test_default_inputs_tell_an_operator_from_nothing_a_constant_and_its_input(name):
    case = case_of(name)
    assert case.passes(results_of(case, [case.views[t.uid] for t in case.graph.inputs]))
    right = {word for word, results in simple(case) if case.passes(results)}
    if base(name) in CONSTANT:
        right -= {"zeros", "ones", "the mean"}
    if {base(name), name} & COPIES:
        right = {word for word in right if not word.startswith("its input")}
    assert right == set()


HALVES = {
    # what is left of an operator without its bound
    "relu6": lambda x: np.maximum(x, 0),
    "clip": lambda x: x,
    "hard_sigmoid": lambda x: x / 6 + 0.5,
    "hard_swish": lambda x: x * (x / 6 + 0.5),
    "hinge_loss": lambda x, t: np.mean(1 - x * t),
    "squared_hinge_loss": lambda x, t: np.mean((1 - x * t) ** 2),
    "huber_loss": lambda x, t: np.mean(0.5 * (x - t) ** 2),
    "triplet_loss": lambda x, p, q: np.mean(((x - p) ** 2 - (x - q) ** 2).sum(1) + 1),
    "reduce_mul_no_zeros": lambda x: np.prod(x, 1, keepdims=True),
    "nan_to_num": lambda x: np.where(np.isnan(x), 0, x),
    "isfinite": lambda x: ~np.isnan(x),
    "lrn": lambda x: x,
    "round": lambda x: np.floor(x + 0.5),
    "fmod": np.mod,
}


@pytest.mark.parametrize("name", HALVES)
def test_default_inputs_reach_the_bound_of_an_operator(name):
    case = case_of(name)
    views = [case.views[t.uid].astype(float) for t in case.graph.inputs]
    assert not case.passes([HALVES[name](*views)])


@pytest.mark.parametrize("name", NAMES)
def test_default_inputs_tell_an_operator_from_its_neighbours(name):
    case = case_of(name)
    alike = []
    for other in NAMES:
        if other == name or same(name, other):
            continue
        if case_of(other).signature != case.signature:
            continue
        try:
            found = results_of(case_of(other), [case.views[t.uid] for t in case.graph.inputs])
        except BenchRunError:
            continue
        if case.passes(found):
            alike.append(other)
    assert alike == []
