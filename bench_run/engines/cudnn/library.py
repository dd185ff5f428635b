"""cuDNN's frontend: loaded without PyTorch, versions checked, exceptions turned into ours."""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys
import sysconfig
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.errors import EngineError, EngineUnavailableError, UnsupportedGraphError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench_run.graph.model import Graph

LOWEST = (1, 23)
"""The oldest release of the frontend whose `pygraph` is the one used here."""
FAULTS = ("ALLOC_FAILED", "INTERNAL_ERROR", "EXECUTION_FAILED", "cudaError", "CUDA_ERROR")
"""Words of a message that tell a failure from a refusal."""
MOST_REASON = 300
OTHER_CHIPS = ("ARCH_MISMATCH", "Blackwell", "deviceVer")
"""Words of reasons that are about engines for another chip."""


def load() -> Any:
    """Return the module `cudnn`. Raises `EngineUnavailableError`."""
    if "cudnn" not in sys.modules:
        # The CUDA runtime of the installed wheels, so that the frontend finds it by its name.
        root = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
        found = sorted(root.glob("*/lib/libcudart.so.*[0-9]"))
        if found:
            with contextlib.suppress(OSError):
                ctypes.CDLL(str(found[-1]), mode=ctypes.RTLD_GLOBAL)
    try:
        with _without_torch():
            module = import_module("cudnn")
    except (ImportError, OSError, RuntimeError) as error:
        raise EngineUnavailableError(f"cuDNN's frontend does not load: {error}") from error
    check_version(str(module.__version__))
    return module


def check_version(text: str) -> None:
    found = tuple(int(part) for part in re.findall(r"\d+", text)[:2])
    if found < LOWEST:
        raise EngineUnavailableError(
            f"cuDNN frontend {text} is too old; pip install "
            f"'nvidia-cudnn-frontend>={LOWEST[0]}.{LOWEST[1]}'"
        )


@contextmanager
def _without_torch() -> Iterator[None]:
    """Hide PyTorch, which the frontend would import if installed, for seconds and without need."""
    if "torch" in sys.modules or "cudnn" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
        with contextlib.suppress(ImportError, AttributeError):
            import_module("cudnn.datatypes").is_torch_available()  # remembers "no"
    finally:
        del sys.modules["torch"]


def versions(cudnn: Any) -> dict[str, str]:
    found = {"cudnn": backend_text(int(cudnn.backend_version())), "frontend": cudnn.__version__}
    for name in ("nvidia-cublas", "nvidia-cuda-nvrtc"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def backend_text(number: int) -> str:
    """Format the version: ``9.19.0`` for 91900."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


BUGS = (TypeError, AttributeError, LookupError, AssertionError, ImportError)
"""Exceptions of the frontend's Python that tell nothing about the graph."""


def foreign() -> tuple[type[Exception], ...]:
    """Return the frontend's exception types: its own class is not a `RuntimeError`."""
    own = getattr(sys.modules.get("cudnn"), "cudnnGraphNotSupportedError", None)
    compiled = getattr(sys.modules.get("cudnn"), "_compiled_module", None)
    own = getattr(compiled, "cudnnGraphNotSupportedError", own)
    common = (RuntimeError, ValueError, *BUGS)
    return common if own is None else (*common, own)


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Convert errors of building: a graph that cuDNN does not take is *unsupported*, others are
    failures."""
    try:
        yield
    except foreign() as error:
        text = str(error)
        if isinstance(error, BUGS) or any(word in text for word in FAULTS):
            raise EngineError(f"cudnn: {what}: {reason(text)}", detail=text) from error
        raise UnsupportedGraphError(f"cudnn: {what}: {reason(text)}") from error


@contextmanager
def failures(what: str) -> Iterator[None]:
    """Convert errors of running: every exception of the library is a failure."""
    try:
        yield
    except foreign() as error:
        text = str(error)
        raise EngineError(f"cudnn: {what}: {reason(text)}", detail=text) from error


def reason(text: str) -> str:
    """Return cuDNN's own words, in one line: the first reason that is not about another
    architecture."""
    found = [part.strip() for part in re.findall(r"Reason:?\s*([^\n]+)", text)]
    chosen = next((part for part in found if not any(w in part for w in OTHER_CHIPS)), None)
    line = chosen or next((part for part in text.splitlines() if part.strip()), "no reason given")
    return " ".join(line.split())[:MOST_REASON]


# Two generations of the frontend.
#
#                       to 1.26                 from 1.27
# handle                a number                `Handle`, from 1.28 on
# `pygraph`             the library's graph     written in Python; hands most graphs down to the
#                                               library's (`backend_graph`)
# plans                 the library's           also of engines written in Python, ranked among them
# one execution         `_execute_plan_at_index` the same of the graph below; of an engine in Python
#                                               `execute_plan_at_index`
# optional operands     None                    left out, which batch norm without running
#                                               statistics does not take: `backend_graph` does


def new_graph(cudnn: Any, handle: Any, graph: Graph, **settings: Any) -> Any:
    """Return an empty `pygraph` for a graph; `handle` None: one that is only checked."""
    compiled = cudnn._compiled_module
    lower = getattr(compiled, "backend_graph", None)
    needs_none = any(
        node.type == "BatchnormAttributes" and "prev_running_mean" not in node.inputs
        for node in graph.nodes
    )
    if lower is None or not needs_none:
        return cudnn.pygraph(handle=handle, **settings)
    return lower(handle=number_of(handle), **settings)


def number_of(handle: Any) -> Any:
    """Return the library's own handle."""
    return getattr(handle, "backend_handle", handle)


def executor(pygraph: Any, index: int, handle: Any) -> Callable[[dict[int, int], int], None]:
    """Return the cheapest call that runs the plan at `index`, with addresses by uid and the address
    of the workspace as arguments."""
    plans = getattr(pygraph, "plans", None)
    if plans is None:
        graph, place = pygraph, index
    elif (place := plans[index].cpp_index) is not None:
        graph = pygraph._lowered_graph
    else:
        return lambda pack, workspace: pygraph.execute_plan_at_index(
            pack, workspace, index=index, handle=handle
        )
    execute, number = graph._execute_plan_at_index, number_of(handle)
    return lambda pack, workspace: execute(pack, workspace, place, number)


DATA_TYPES: Mapping[str, str] = {
    "double": "DOUBLE",
    "float": "FLOAT",
    "half": "HALF",
    "bfloat16": "BFLOAT16",
    "fp8_e4m3": "FP8_E4M3",
    "fp8_e5m2": "FP8_E5M2",
    "fp8_e8m0": "FP8_E8M0",
    "int8": "INT8",
    "uint8": "UINT8",
    "int32": "INT32",
    "int64": "INT64",
    "boolean": "BOOLEAN",
}
"""hipDNN's name → member of `cudnn.data_type`."""

POINTWISE: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "abs": ("abs", ("input",)),
    "add": ("add", ("a", "b")),
    "add_square": ("add_square", ("a", "b")),
    "binary_select": ("binary_select", ("input0", "input1", "mask")),
    "ceil": ("ceil", ("input",)),
    "cmp_eq": ("cmp_eq", ("input", "comparison")),
    "cmp_ge": ("cmp_ge", ("input", "comparison")),
    "cmp_gt": ("cmp_gt", ("input", "comparison")),
    "cmp_le": ("cmp_le", ("input", "comparison")),
    "cmp_lt": ("cmp_lt", ("input", "comparison")),
    "cmp_neq": ("cmp_neq", ("input", "comparison")),
    "div": ("div", ("a", "b")),
    "elu_bwd": ("elu_backward", ("loss", "input")),
    "elu_fwd": ("elu", ("input",)),
    "erf": ("erf", ("input",)),
    "exp": ("exp", ("input",)),
    "floor": ("floor", ("input",)),
    "gelu_approx_tanh_bwd": ("gelu_approx_tanh_backward", ("loss", "input")),
    "gelu_approx_tanh_fwd": ("gelu_approx_tanh", ("input",)),
    "gelu_bwd": ("gelu_backward", ("loss", "input")),
    "gelu_fwd": ("gelu", ("input",)),
    "gen_index": ("gen_index", ("input",)),
    "identity": ("identity", ("input",)),
    "log": ("log", ("input",)),
    "logical_and": ("logical_and", ("a", "b")),
    "logical_not": ("logical_not", ("input",)),
    "logical_or": ("logical_or", ("a", "b")),
    "max_op": ("max", ("input0", "input1")),
    "min_op": ("min", ("input0", "input1")),
    "mul": ("mul", ("a", "b")),
    "neg": ("neg", ("input",)),
    "reciprocal": ("reciprocal", ("input",)),
    "relu_bwd": ("relu_backward", ("loss", "input")),
    "relu_fwd": ("relu", ("input",)),
    "rsqrt": ("rsqrt", ("input",)),
    "sigmoid_bwd": ("sigmoid_backward", ("loss", "input")),
    "sigmoid_fwd": ("sigmoid", ("input",)),
    "sin": ("sin", ("input",)),
    "softplus_bwd": ("softplus_backward", ("loss", "input")),
    "softplus_fwd": ("softplus", ("input",)),
    "sqrt": ("sqrt", ("input",)),
    "sub": ("sub", ("a", "b")),
    "swish_bwd": ("swish_backward", ("loss", "input")),
    "swish_fwd": ("swish", ("input",)),
    "tan": ("tan", ("input",)),
    "tanh_bwd": ("tanh_backward", ("loss", "input")),
    "tanh_fwd": ("tanh", ("input",)),
}
"""Operation of the graph → method of `pygraph` and the names of its operands."""

ACTIVATION: Mapping[str, str] = {
    "relu_lower_clip": "lower_clip",
    "relu_upper_clip": "upper_clip",
    "relu_lower_clip_slope": "negative_slope",
    "swish_beta": "swish_beta",
    "axis_tensor_uid": "axis",
}
"""Attribute of the graph → argument of the method."""

FIXED: Mapping[str, float] = {"elu_alpha": 1.0, "softplus_beta": 1.0}
"""Attributes that the frontend has no argument for, and the value it takes."""

REDUCTIONS: Mapping[str, str] = {
    "add": "ADD",
    "mul": "MUL",
    "min": "MIN",
    "max": "MAX",
    "amax": "AMAX",
    "norm2": "NORM2",
    "mul_no_zeros": "MUL_NO_ZEROS",
}

KNOBS: Mapping[int, str] = {
    1: "SWIZZLE",
    2: "TILE_SIZE",
    4: "EDGE",
    11: "MULTIPLY",
    12: "SPLIT_K_BUF",
    13: "TILEK",
    14: "STAGES",
    15: "REDUCTION_MODE",
    17: "SPLIT_K_SLC",
    18: "IDX_MODE",
    23: "SPECFILT",
    24: "KERNEL_CFG",
    25: "WORKSPACE",
    27: "TILE_CGA_M",
    28: "TILE_CGA_N",
    29: "BLOCK_SIZE",
    30: "OCCUPANCY",
    31: "ARRAY_SIZE_PER_THREAD",
    33: "SPLIT_COLS",
    34: "TILE_ROWS",
    35: "TILE_COLS",
    36: "LOAD_SIZE",
    37: "CTA_COUNT",
    38: "STREAM_K",
    39: "SPLIT_P_SLC",
    40: "TILE_M",
    41: "TILE_N",
    42: "WARP_SPEC_CFG",
    43: "SWAP_AB",
}
"""The backend's number of a knob, as in a plan's name (``k2=0``) → member of `cudnn.knob_type`."""

UNNUMBERED_KNOBS = ("INPUT_TMA_ENABLE", "OUTPUT_TMA_ENABLE", "TILE_CGA")
"""Members of frontend 1.32 whose number no plan's name has shown yet."""
