"""Problems of benchdnn's drivers to op specs of `bench_run.graph.make`.

A problem is letters with numbers (``mb32ic64ih56oc64oh56kh3ph1``) or lengths joined by x, tensors
by a colon (``64x128:128x256``); a name may follow (``n"net:conv1"``).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_run.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TYPES = {"f32": "float", "f16": "half", "bf16": "bfloat16", "f64": "double", "s8": "int8",
         "s32": "int32"}  # fmt: skip
LAST = {"axb", "nhwc", "nwc", "ndhwc", "acb", "acdb", "acdeb"}
"""Tags with the channels last."""
FIRST = {
    *("any", "abx", "nchw", "ncw", "ncdhw", "abcd", "abcde", "abc", "ab", "a", "x", "nc"),
    "undef",
}
TAGS = ("tag", "stag", "dtag")
AXES = ("d", "h", "w")
FILTER = ("t", "r", "s")
ELTWISE = {
    "relu": "relu", "tanh": "tanh", "elu": "elu", "square": "square", "abs": "abs",
    "sqrt": "sqrt", "soft_relu": "softplus", "logistic": "sigmoid", "exp": "exp",
    "gelu_tanh": "gelu_tanh", "gelu_erf": "gelu", "swish": "swish", "log": "log", "clip": "clip",
    "clip_v2": "clip", "round": "round", "mish": "mish", "hardswish": "hard_swish",
    "hardsigmoid": "hard_sigmoid", "srelu": "softplus", "gelu": "gelu_tanh",
}  # fmt: skip
BINARY = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "max": "max_op", "min": "min_op",
          "ge": "cmp_ge", "gt": "cmp_gt", "le": "cmp_le", "lt": "cmp_lt", "eq": "cmp_eq",
          "ne": "cmp_neq"}  # fmt: skip
REDUCTIONS = {"sum": "reduce_add", "mean": "reduce_avg", "max": "reduce_max", "min": "reduce_min",
              "mul": "reduce_mul"}  # fmt: skip
PLAIN = "scale and shift are there, the problem does not have them: feed ones and zeros"
NORMS = {1.0: "reduce_norm1", 2.0: "reduce_norm2"}
LETTERS = re.compile(
    r"_+|(?P<key>mb|ic|oc|[iok][dhw]|[sp][dhw]|d[dhw]|eps|g)(?P<value>(?<=eps)[\d.e+-]+|\d+)"
)


class Refused(Exception):  # noqa: N818
    """The problem makes sense, and has no graph; the message says why."""


@dataclass(frozen=True)
class Problem:
    driver: str
    text: str
    options: Mapping[str, str]
    where: str

    def get(self, name: str, default: str = "") -> str:
        return self.options.get(name) or default

    def error(self, what: str) -> GraphError:
        return GraphError(self.where, f"{self.driver}: {self.text}: {what}")

    @property
    def body(self) -> str:
        """Return the problem without its name, which begins after an n."""
        return re.split("_?n", self.text)[0]

    def direction(self, default: str) -> str:
        found = self.get("dir", default).upper()
        known = ("FWD_D", "FWD_B", "FWD_I", "BWD_D", "BWD_W", "BWD_WB", "BWD_DW")
        if found not in known:
            raise self.error(f"--dir={found}; choose from {', '.join(known)}")
        return found

    @property
    def dtype(self) -> str:
        """Return the type of the first input."""
        given = self.get("dt") or self.get("sdt") or self.get("cfg") or "f32"
        first = re.split(r"[:_]", given)[0]
        if first.startswith(("s8", "u8")) and not self.get("dt"):
            first = first[:2]  # --cfg=u8s8s32
        if first not in TYPES:
            raise Refused(f"type {first} is not converted ({', '.join(TYPES)} are)")
        return TYPES[first]

    def layout(self, rank: int) -> str | None:
        """Return the order of the axes of an image in memory; None for the usual one."""
        tags = {one for name in TAGS for one in self.get(name).split(":")} - {"", *FIRST}
        if tags and tags <= LAST and rank > 2:
            return {3: "nwc", 4: "nhwc", 5: "ndhwc"}[rank]
        return None

    def order_notes(self, *, kept: bool = True) -> tuple[str, ...]:
        """Return a note on orders in memory that are not kept: blocks, and for operations on any
        number of axes (`kept` is False) all but the usual one."""
        tags = {one for name in TAGS for one in self.get(name).split(":")} - {"", *FIRST}
        lost = sorted(tags - LAST if kept else tags)
        return (f"memory order {', '.join(lost)} there, row-major here",) if lost else ()


@dataclass(frozen=True)
class Made:
    specs: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Image:
    """Lengths by letter of an image: ``ih224kh3`` is ``i`` and ``k`` of the axis ``h``."""

    values: Mapping[str, float]
    axes: tuple[str, ...]

    def of(self, letter: str, default: int | None = None) -> tuple[int | None, ...]:
        """Return the value of each axis; an axis without an input of its own has those of the axis
        before it."""
        found: list[int | None] = []
        for axis in self.axes:
            own = axis if f"i{axis}" in self.values else self.axes[max(0, len(found) - 1)]
            while f"i{own}" not in self.values:
                own = self.axes[self.axes.index(own) - 1]
            found.append(self.get(letter + own, default))
        return tuple(found)

    def all(self, letter: str, default: int | None = None) -> tuple[int, ...] | None:
        """Return the values of all axes; None if one lacks it."""
        found = self.of(letter, default)
        return None if None in found else tuple(int(one or 0) for one in found)

    def get(self, key: str, default: int | None = None) -> int | None:
        return int(self.values[key]) if key in self.values else default

    def items(self, problem: Problem, lengths: tuple[int, ...]) -> dict[str, Any]:
        """Return the items of every operation on images, of these lengths."""
        rank = len(lengths)
        return {
            "spatial": rank,
            "n": self.get("mb", 2),
            "c": self.get("ic"),
            **dict(zip(AXES[-rank:], lengths, strict=True)),
            "dtype": problem.dtype,
            "layout": problem.layout(rank + 2),
        }


def _image(problem: Problem, least: int = 1) -> Image:
    """Return the letters and numbers of a problem. Raises `GraphError` for other text, and for
    fewer axes than `least`."""
    values: dict[str, float] = {}
    rest = problem.body
    at = 0
    while at < len(rest):
        found = LETTERS.match(rest, at)
        if found is None:
            raise problem.error(f"{rest[at:]!r} is not a letter of {problem.driver} and its number")
        if found["key"]:
            values[found["key"]] = float(found["value"])
        at = found.end()
    if problem.get("mb", "0") != "0":
        values["mb"] = float(problem.get("mb"))
    given = [axis for axis in AXES if f"i{axis}" in values]
    if len(given) < least:
        raise problem.error("no length of the image: id, ih or iw")
    axes = AXES[AXES.index(given[0]) :] if given else ()
    return Image(values, axes)


def _spec(op: str, items: Mapping[str, Any]) -> str:
    return f"{op}: " + " ".join(
        f"{key}={'x'.join(map(str, value)) if isinstance(value, tuple) else value}"
        for key, value in items.items()
        if value is not None
    )


def _windows(
    problem: Problem, image: Image, lengths: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    """Return window, stride, padding before and after, dilation, and the output, as benchdnn
    completes them: an output without padding says the padding, otherwise padding is that of both
    ends."""
    taps = image.all("k")
    if taps is None:
        raise problem.error("no length of the window: kd, kh or kw")
    stride = image.all("s", 1) or ()
    dilation = tuple(one + 1 for one in image.all("d", 0) or ())
    pads, outputs = image.of("p"), image.of("o")
    before, after, results = [], [], []
    for n, (length, tap, step, apart) in enumerate(
        zip(lengths, taps, stride, dilation, strict=True)
    ):
        reach = (tap - 1) * apart + 1
        pad, given = pads[n], outputs[n]
        first = 0 if pad is None else pad
        if given is None:
            result = (length + 2 * first - reach) // step + 1
        else:
            result = given
            if pad is None and result != (length - reach) // step + 1:
                first = max(0, ((result - 1) * step - length + reach) // 2)
        same = (length + 2 * first - reach) // step + 1 == result
        last = first if same else (result - 1) * step - length - first + reach
        if last < 0 or result < 1:
            raise Refused("an output that leaves a part of its input out is not converted")
        before.append(first)
        after.append(last)
        results.append(result)
    names = ("window", "stride", "pad", "pad_post", "dilation", "output")
    values = (taps, stride, before, after, dilation, results)
    return {name: tuple(value) for name, value in zip(names, values, strict=True)}


def _after(problem: Problem) -> tuple[str, dict[str, Any]]:
    """Return the operations after the first: those of ``--attr-post-ops``."""
    ops, items = [], dict[str, Any]()
    for text in filter(None, problem.get("attr-post-ops").split("+")):
        name, *numbers = text.split(":")
        name = name.removeprefix("eltwise_").removeprefix("binary_").removesuffix("_dst")
        if name == "sum" and not [one for one in numbers if one not in ("1", "1.0", "0")]:
            ops.append("add")
        elif name in ELTWISE:
            op, own = _eltwise(name, *[float(one) for one in numbers[:2]])
            ops.append(op)
            items |= own
        elif name in BINARY and numbers[1:2] in (["per_oc"], ["2"]) and name == "add":
            ops.append("bias")
        elif name in BINARY and numbers[1:2] == ["per_tensor"]:
            ops.append(BINARY[name])
        else:
            raise Refused(f"post-op {text} is not converted")
    return "".join(f"+{op}" for op in ops), items


def _eltwise(alg: str, alpha: float = 0.0, beta: float = 0.0) -> tuple[str, dict[str, Any]]:
    op = ELTWISE[alg]
    if alg == "relu" and alpha:
        return "leaky_relu", {"slope": alpha}
    if op == "clip" and not alpha < beta:
        raise Refused(f"{alg} from {alpha:g} to {beta:g} is empty, and left out by benchdnn too")
    usual = (alpha, beta) == (0, 0) or (abs(alpha - 1 / 6) < 0.001 and beta == 0.5)
    if alg in ("hardswish", "hardsigmoid") and not usual:
        raise Refused(f"{alg} with alpha {alpha:g} and beta {beta:g} is not converted")
    names = {
        "elu": {"alpha": alpha or 1.0},
        "swish": {"beta": alpha or 1.0},
        "softplus": {"beta": alpha or 1.0},
        "clip": {"low": alpha, "high": beta},
    }
    return op, names.get(op, {})


def _conv(problem: Problem) -> Made:
    image, way = _image(problem), problem.direction("FWD_B")
    lengths = image.all("i")
    channels, filters = image.get("ic"), image.get("oc")
    if lengths is None or channels is None or filters is None:
        raise problem.error("a convolution needs ic, oc and lengths of its image")
    windows = _windows(problem, image, lengths)
    items = {
        **image.items(problem, lengths),
        "k": filters,
        **dict(zip(FILTER[-len(lengths) :], windows["window"], strict=True)),
        **{name: windows[name] for name in ("pad", "pad_post", "stride", "dilation")},
        "groups": image.get("g", 1),
    }
    after, own = _after(problem)
    if after and way.startswith("BWD"):
        raise Refused("post-ops of a gradient are not converted")
    has_bias = way in ("FWD_B", "BWD_WB") or problem.get("bia-dt", "undef") != "undef"
    notes = problem.order_notes()
    if way == "BWD_D":
        return Made((_spec("conv_dgrad", items),), notes)
    if way in ("BWD_W", "BWD_WB"):
        gradient = ("the gradient of the bias is left out",) if way == "BWD_WB" else ()
        return Made((_spec("conv_wgrad", items),), (*notes, *gradient))
    return Made((_spec(f"conv_fwd{'+bias' if has_bias else ''}{after}", {**items, **own}),), notes)


def _deconv(problem: Problem) -> Made:
    """Convert a transposed convolution: it is the data gradient of the convolution that makes its
    input of its output."""
    image, way = _image(problem), problem.direction("FWD_B")
    values = dict(image.values)
    taps, lengths = image.all("k"), image.all("i")
    if taps is None or lengths is None or not {"ic", "oc"} <= values.keys():
        raise problem.error("a transposed convolution needs ic, oc, kh and ih")
    stride, pads = image.all("s", 1) or (), image.all("p", 0) or ()
    apart = tuple(one + 1 for one in image.all("d", 0) or ())
    outputs = image.all("o") or tuple(
        (i - 1) * s + (k - 1) * d + 1 - 2 * p
        for i, s, k, d, p in zip(lengths, stride, taps, apart, pads, strict=True)
    )
    for n, axis in enumerate(image.axes):
        values |= {f"i{axis}": outputs[n], f"o{axis}": lengths[n], f"k{axis}": taps[n]}
        values |= {f"s{axis}": stride[n], f"p{axis}": pads[n], f"d{axis}": apart[n] - 1}
    values |= {"ic": values["oc"], "oc": values["ic"]}
    swap = {"FWD_B": "BWD_D", "FWD_D": "BWD_D", "FWD_I": "BWD_D", "BWD_D": "FWD_D"}
    text = "".join(f"{key}{int(value)}" for key, value in values.items())
    turned = {**problem.options, "dir": swap.get(way, "BWD_W"), "mb": ""}
    if problem.get("attr-post-ops"):
        raise Refused("post-ops of a transposed convolution are not converted")
    notes = ("the bias is left out",) if way == "FWD_B" else ()
    return Made(_conv(Problem("conv", text, turned, problem.where)).specs, notes)


def _pool(problem: Problem) -> Made:
    image, way = _image(problem), problem.direction("FWD_D")
    lengths, channels = image.all("i"), image.get("ic")
    if lengths is None or channels is None:
        raise problem.error("pooling needs ic and lengths of its image")
    windows = _windows(problem, image, lengths)
    if set(windows["dilation"]) != {1}:
        raise Refused("a window with holes (dh, dw) has no hipDNN graph")
    alg = problem.get("alg", "max").lower().removeprefix("pooling_")
    ops = {"max": "maxpool", "avg_np": "avgpool", "avg_p": "avgpool_padded"}
    names = {"avg_exclude_padding": "avg_np", "avg_include_padding": "avg_p"}
    op = ops.get(names.get(alg, alg))
    if op is None:
        raise problem.error(f"--alg={alg}; choose from {', '.join(ops)}")
    own = {name: windows[name] for name in ("window", "stride", "pad", "pad_post")}
    items = {**image.items(problem, lengths), **own}
    after, more = _after(problem)
    if way == "BWD_D":
        return Made((_spec(f"{op}_bwd", items),), problem.order_notes())
    return Made((_spec(f"{op}{after}", {**items, **more}),), problem.order_notes())


def _bnorm(problem: Problem) -> Made:
    image, way = _image(problem, 0), problem.direction("FWD_D")
    channels, flags = image.get("ic"), problem.get("flags").upper().replace("S", "CH")
    if channels is None:
        raise problem.error("batch norm needs ic")
    lengths = image.all("i") or ()
    if len(lengths) < 2:
        lengths = (1,) * (2 - len(lengths)) + lengths  # an image of one row
    backward = way.startswith("BWD")
    op = "batchnorm_bwd" if backward else "batchnorm_training"
    own: dict[str, Any] = {}
    if not backward:
        own = {"eps": image.values.get("eps", 0.0625)}
        if "G" in flags:
            op = "batchnorm_inference_variance"
        else:
            own |= {"saved": int(way != "FWD_I"), "running": 0}
    if "R" in flags or "A" in flags:
        if backward:
            raise Refused("the gradient of a fused ReLU (--flags=R) is not converted")
        op += "+add+relu" if "A" in flags else "+relu"
    items = {**image.items(problem, lengths), **own}
    after, more = _after(problem)
    notes = () if {"C", "H"} & set(flags) else (PLAIN,)
    return Made((_spec(op + after, {**items, **more}),), (*notes, *problem.order_notes()))


def _tensors(problem: Problem, count: int) -> list[tuple[int, ...]]:
    """Return the lengths of the tensors of a problem, a colon between them."""
    body = problem.body
    if re.match(r"mb?\d+i?c", body):  # the older form of softmax and eltwise
        image = dict(re.findall(r"([a-z]+)(\d+)", body))
        lengths = [image.get(key) for key in ("mb", "ic", "id", "ih", "iw")]
        if image.get("ih") and not image.get("iw"):
            lengths[4] = image["ih"]
        return [tuple(int(one) for one in lengths if one is not None)]
    parts = body.split(":")
    if not all(re.fullmatch(r"\d+(x\d+)*", part) for part in parts) or len(parts) > count:
        raise problem.error(
            "expected lengths joined by x, such as 64x128" + ":64x128" * (count > 1)
        )
    return [tuple(map(int, part.split("x"))) for part in parts]


def _matmul(problem: Problem) -> Made:
    if found := re.fullmatch(r"(?:mb(\d+))?m(\d+)n(\d+)k(\d+)", problem.text):
        batches = (int(found[1]),) if found[1] else ()
        m, n, k = (int(one) for one in found.groups()[1:])
        first, second = (*batches, m, k), (*batches, k, n)
    else:
        found_ = _tensors(problem, 3)
        if len(found_) < 2 or min(map(len, found_)) < 2:
            raise problem.error("a matrix product is written MxK:KxN")
        first, second = found_[0], found_[1]
    if len(first) != len(second) or first[-1] != second[-2]:
        raise problem.error(f"inner lengths differ: {first[-1]} and {second[-2]}")
    turned = {"ab": "n", "abx": "n", "any": "n", "": "n", "abc": "n", "abcd": "n", "ba": "t",
              "acb": "t", "abdc": "t"}  # fmt: skip
    tags = [problem.get(name) for name in ("stag", "wtag")]
    if not all(tag in turned for tag in tags) or problem.get("dtag") not in turned:
        raise Refused(f"memory order {':'.join([*tags, problem.get('dtag')])} is not converted")
    batch = tuple(map(max, first[:-2], second[:-2]))
    after, own = _after(problem)
    broadcast = [a != b for a, b in zip(first[:-2], second[:-2], strict=True)]
    if any(broadcast):
        raise Refused("matrices that are shared in a part of the batch are not converted")
    items = {
        "batch": math.prod(batch) if batch else None,
        "m": first[-2],
        "n": second[-1],
        "k": first[-1],
        "dtype": problem.dtype,
        "layout": turned[tags[0]] + turned[tags[1]],
    }
    notes = (f"batch {'x'.join(map(str, batch))} is one axis",) if len(batch) > 1 else ()
    bias = "+bias" if problem.get("bia-dt", "undef") != "undef" else ""
    return Made((_spec(f"matmul{bias}{after}", {**items, **own}),), notes)


def _plain(problem: Problem, dims: Sequence[int]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the items of an operation on a tensor of any rank, and notes."""
    if problem.get("mb", "0") != "0":
        dims = (int(problem.get("mb")), *dims[1:])
    return {"dims": tuple(dims), "dtype": problem.dtype}, problem.order_notes(kept=False)


def _lnorm(problem: Problem) -> Made:
    (dims,) = _tensors(problem, 1)
    items, notes = _plain(problem, dims)
    if len(dims) < 2:
        raise problem.error("layer norm needs two axes or more")
    backward = problem.direction("FWD_D").startswith("BWD")
    own: dict[str, Any] = {"last": 1} if backward else {"last": 1, "eps": 0.0625}
    flags = set(problem.get("flags").upper())
    op = "layernorm"
    if "M" in flags:
        op, own = "rmsnorm", {**own, **({} if backward else {"phase": "inference"})}
    extra = () if {"C", "H", "S"} & flags else (PLAIN,)
    after, more = _after(problem)
    op = f"{op}_bwd" if backward else op + after
    return Made((_spec(op, {**items, **own, **more}),), (*notes, *extra))


def _softmax(problem: Problem) -> Made:
    (dims,) = _tensors(problem, 1)
    items, notes = _plain(problem, dims)
    axis = int(problem.get("axis", "1"))
    if not 0 <= axis < len(dims):
        raise problem.error(f"--axis={axis} of {len(dims)} axes")
    alg = problem.get("alg", "softmax").lower()
    names = ("softmax", "softmax_accurate", "logsoftmax", "softmax_log")
    if alg not in names:
        raise Refused(f"--alg={alg} is not converted ({', '.join(names)} are)")
    op = "log_softmax" if "log" in alg else "softmax"
    after, more = _after(problem)
    backward = problem.direction("FWD_D").startswith("BWD")
    op = f"{op}_bwd" if backward else op + after
    return Made((_spec(op, {**items, "axis": axis, **more}),), notes)


def _pointwise(problem: Problem) -> Made:
    (dims,) = _tensors(problem, 1)
    items, notes = _plain(problem, dims)
    alg = problem.get("alg", "relu").lower().removeprefix("eltwise_").removesuffix("_dst")
    numbers = [float(problem.get(name, "0")) for name in ("alpha", "beta")]
    if alg == "linear" or alg == "pow":
        raise Refused(f"{alg} with alpha and beta is not one operation here; try --op mul+add")
    if alg not in ELTWISE:
        raise problem.error(f"--alg={alg}; choose from {', '.join(ELTWISE)}")
    op, own = _eltwise(alg, *numbers)
    if problem.direction("FWD_D").startswith("BWD"):
        op += "_bwd"
    return Made((_spec(op, {**items, **own}),), notes)


def _binary(problem: Problem) -> Made:
    found = _tensors(problem, 3)
    first, second = found[0], found[1] if len(found) > 1 else found[0]
    items, notes = _plain(problem, first)
    alg = problem.get("alg", "add").lower().removeprefix("binary_")
    if alg not in BINARY:
        raise problem.error(f"--alg={alg}; choose from {', '.join(BINARY)}")
    second = (*second, *(1 for _ in first[len(second) :]))
    turns = alg in ("add", "mul", "max", "min")
    if turns and math.prod(second) > math.prod(first):
        first, second = second, first
        items["dims"] = first
    if len(first) != len(second) or any(
        b not in (1, a) for a, b in zip(first, second, strict=True)
    ):
        raise Refused("a first tensor that is spread over the second is not converted")
    other = {} if first == second else {"rhs_dims": second}
    after, own = _after(problem)
    return Made((_spec(BINARY[alg] + after, {**items, **other, **own}),), notes)


def _reduction(problem: Problem) -> Made:
    found = _tensors(problem, 2)
    if len(found) != 2 or len(found[0]) != len(found[1]):
        raise problem.error("a reduction is written 8x64x56x56:8x64x1x1")
    items, notes = _plain(problem, found[0])
    axes = tuple(n for n, (a, b) in enumerate(zip(*found, strict=True)) if a != b)
    if not axes or any(found[1][axis] != 1 for axis in axes):
        raise problem.error("a reduced axis has the length 1 after the colon")
    alg = problem.get("alg", "sum").lower().removeprefix("reduction_")
    op = REDUCTIONS.get(alg)
    if alg == "norm_lp_sum":
        op = NORMS.get(float(problem.get("p", "1")))
    if op is None:
        raise Refused(f"--alg={alg} is not converted ({', '.join(REDUCTIONS)} and norm_lp_sum are)")
    after, own = _after(problem)
    return Made((_spec(op + after, {**items, "axes": axes, **own}),), notes)


def _flat(problem: Problem) -> tuple[Image, dict[str, Any], tuple[int, int]]:
    """Return a problem on an image of two axes. Raises `Refused` for another, and for a
    gradient."""
    image = _image(problem)
    lengths = image.all("i") or ()
    if image.get("ic") is None:
        raise problem.error("no number of channels: ic")
    if len(lengths) != 2:
        raise Refused(f"{problem.driver} of {len(lengths)} spatial axes is not converted")
    if problem.direction("FWD_D").startswith("BWD"):
        raise Refused(f"the gradient of {problem.driver} is not converted")
    h, w = lengths
    items = {"n": image.get("mb", 2), "c": image.get("ic"), "h": h, "w": w, "dtype": problem.dtype}
    return image, items, (h, w)


def _gnorm(problem: Problem) -> Made:
    image, items, _ = _flat(problem)
    own = {"groups": image.get("g", 1), "eps": image.values.get("eps", 0.0625)}
    notes = () if {"C", "H", "S"} & set(problem.get("flags").upper()) else (PLAIN,)
    return Made(
        (_spec("group_norm", {**items, **own}),), (*notes, *problem.order_notes(kept=False))
    )


def _resampling(problem: Problem) -> Made:
    image, items, lengths = _flat(problem)
    outputs = image.all("o")
    if outputs is None:
        raise problem.error("resampling needs the lengths of its output: oh, ow")
    factors = {o / i for o, i in zip(outputs, lengths, strict=True)}
    if len(factors) > 1 or not min(factors).is_integer():
        raise Refused("a factor that is not whole, or not the same for both axes, is not converted")
    alg = problem.get("alg", "nearest").lower().removeprefix("resampling_")
    ops = {"nearest": "resample", "linear": "resample_linear"}
    if alg not in ops:
        raise problem.error(f"--alg={alg}; choose from {', '.join(ops)}")
    items |= {"scale": int(min(factors))}
    return Made((_spec(ops[alg], items),), problem.order_notes(kept=False))


def _prelu(problem: Problem) -> Made:
    dims, weights = (_tensors(problem, 2) * 2)[:2]
    by_channel = tuple(length if axis == 1 else 1 for axis, length in enumerate(dims))
    if weights != by_channel:
        raise Refused(f"weights other than one a channel ({by_channel}) are not converted")
    items, notes = _plain(problem, dims)
    op = "prelu_bwd" if problem.direction("FWD_D").startswith("BWD") else "prelu"
    return Made((_spec(op, items),), notes)


DRIVERS: Mapping[str, Callable[[Problem], Made]] = {
    "conv": _conv,
    "deconv": _deconv,
    "matmul": _matmul,
    "pool": _pool,
    "bnorm": _bnorm,
    "lnorm": _lnorm,
    "softmax": _softmax,
    "eltwise": _pointwise,
    "binary": _binary,
    "reduction": _reduction,
    "gnorm": _gnorm,
    "resampling": _resampling,
    "prelu": _prelu,
}
