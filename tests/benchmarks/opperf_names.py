"""The names of opperf's list, each with its command and its outcome on several engines.

Usage:
  opperf_names.py ENGINE...

Prints a table of what becomes of each name,
forward, backward and both in one execution, on small shapes. ``ok`` is a right result, ``-`` an
operator that has no gradient.
"""

from __future__ import annotations

import bench_run
from bench_run.errors import UsageError
from bench_run.graph.make.spec import make_graphs
from bench_run.opperf import op_spec
from tests.benchmarks.harness import script

OTHER = {"max": "amax", "min": "amin"}
"""Reductions, where ``--op max`` is the larger of two tensors."""
NAMES = """
Copy CopyTo as_in_context asnumpy asscalar astype zeros zeros_like ones ones_like full arange
Transpose shape_array size_array reshape reshape_like flatten expand_dims split diag tile pad
sum nansum prod nanprod mean max min norm sort argsort topk argmax argmin argmax_channel add sub
neg mul div mod pow iadd isub imul idiv imod lesser lesser_equal greater greater_equal equal
not_equal get_item set_item slice slice_axis take batch_take pick one_hot exp log sqrt square
concat stack dot batch_dot normal poisson uniform random randn randint shuffle clip where abs
Dense Lambda Flatten Embedding Dropout BatchNorm Conv1D Conv2D Conv1DTranspose Conv2DTranspose
MaxPool1D MaxPool2D AvgPool1D AvgPool2D GlobalMaxPool1D GlobalMaxPool2D GlobalAvgPool1D
GlobalAvgPool2D LeakyRelu PRelu Sigmoid Softmax Log_Softmax Activation RNNCell LSTMCell GRUCell
RecurrentCell SequentialRNNCell BiDirectionalCell L1Loss L2Loss SigmoidBinaryCrossEntropyLoss
SoftmaxCrossEntropyLoss KLDivLoss HuberLoss HingeLoss SquaredHingeLoss LogisticLoss TripletLoss
CTCLoss tostype swapaxes flip depth_to_space space_to_depth round rint fix floor ceil trunc sin
cos tan arcsin arccos arctan degrees radians sinh cosh tanh arcsinh arccosh arctanh expm1 log10
log2 log1p logical_and logical_or logical_xor logical_not rsqrt cbrt rcbrt reciprocal
exponential gamma generalized_negative_binomial multinomial negative_binomial SequenceLast
SequenceMask SequenceReverse unravel_index ravel_multi_index HybridLambda InstanceNorm LayerNorm
Conv3D Conv3DTranspose MaxPool3D AvgPool3D GlobalMaxPool3D GlobalAvgPool3D Elu Selu Swish
ZoneOutCell ResidualCell DropoutCell CosineEmbeddingLoss PoissonNLLLoss RNN LSTM GRU Conv+Relu
Conv+BatchNorm sgd_update sgd_momentum_update adam_update adagrad_update rmsprop_update
signsgd_update
"""
WORDS = {"completed": "ok", "unsupported": "no"}


def spec_of(name):
    """The name as MXNet means it, in our words."""
    return op_spec(OTHER.get(name, name), {}).removesuffix(": ")


def graphs_of(name):
    """Direction → names of its graphs."""
    name = spec_of(name)
    found = {}
    for way in ("fwd", "bwd", "joint"):
        try:
            found[way] = [graph.name for graph in make_graphs(name, "small", way)]
        except UsageError:
            continue
    return found or {"fwd": [graph.name for graph in make_graphs(name, "small")]}


def outcome(case):
    if case.validation is not None and case.validation.status != "passed":
        return case.validation.status
    return WORDS.get(case.outcome.status, case.outcome.status)


def main(engine: list[str]) -> None:
    wanted, reasons = {}, {}
    for name in NAMES.split():
        try:
            wanted[name] = graphs_of(name)
        except UsageError as error:
            reasons[name] = str(error)
    document = bench_run.run(
        (),
        op=[
            f"{spec_of(n)}{' ' if ':' in spec_of(n) else ': '}direction={','.join(ways)}"
            for n, ways in wanted.items()
        ],
        shapes="small",
        engine=engine,
        rounds=1,
        iterations=3,
        warmup=1,
        quiet=False,
    )
    ends = {(case.graph.name, case.engine): outcome(case) for case in document.cases}
    print("| name | command |", " | ".join(f"{one} f b j" for one in engine), "|")
    print("|---|---|" + "---|" * len(engine))
    for name in NAMES.split():
        if name in reasons:
            print(f"| {name} | {reasons[name]} |" + " |" * len(engine))
            continue
        spec = spec_of(name)
        cells = []
        for key in engine:
            words = []
            for way in ("fwd", "bwd", "joint"):
                found = {ends.get((g, key), "left out") for g in wanted[name].get(way, ())}
                words.append("/".join(sorted(found)) or "-")
            cells.append(" ".join(words))
        print(f"| {name} | `--op '{spec}'` |", " | ".join(cells), "|")


if __name__ == "__main__":
    script(main)
