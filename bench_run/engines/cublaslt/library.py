"""cuBLASLt's bindings: descriptors of a product, its algorithms with their names, one call."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.errors import EngineError, EngineUnavailableError, UnsupportedGraphError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench_run.engines.cublaslt.product import Matrix, Product
    from bench_run.engines.device_plan import Workspace

# Members of ``cudaDataType``.
TYPES: Mapping[str, int] = {
    "float": 0,
    "double": 1,
    "half": 2,
    "int8": 3,
    "int32": 10,
    "bfloat16": 14,
    "fp8_e4m3": 28,
    "fp8_e5m2": 29,
}
COMPUTE: Mapping[str, tuple[str, str]] = {
    "float": ("COMPUTE_32F", "float"),
    "double": ("COMPUTE_64F", "double"),
    "int32": ("COMPUTE_32I", "int32"),
    "half": ("COMPUTE_16F", "half"),
}
"""Data type of the sums → member of `ComputeType`, and the type of the factors alpha and beta."""
FACTORS: Mapping[str, Any] = {
    "float": np.float32,
    "double": np.float64,
    "int32": np.int32,
    "half": np.float16,
}
TRANSPOSED = 1
"""Member of ``cublasOperation_t``."""
TF32 = "COMPUTE_32F_FAST_TF32"
WORKSPACE_BYTES = 64 << 20
"""Most that an algorithm may use."""
MOST_ALGORITHMS = 200
PARTS: Mapping[str, str] = {
    "algo": "ID",
    "tile": "TILE_ID",
    "stages": "STAGES_ID",
    "splitk": "SPLITK_NUM",
    "reduction": "REDUCTION_SCHEME",
    "swizzle": "CTA_SWIZZLING",
    "option": "CUSTOM_OPTION",
    "inner": "INNER_SHAPE_ID",
    "cluster": "CLUSTER_SHAPE_ID",
}
"""Parts of an algorithm's name → attributes of its configuration."""


@dataclass(frozen=True)
class Algorithm:
    name: str
    data: Any
    """The structure, as an array."""
    workspace_bytes: int


@contextmanager
def errors(own: type[Exception], what: str) -> Iterator[None]:
    """Turn a refusal of the library into *unsupported*, every other error into a failure. `own`:
    the library's exception."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError) as error:
        raise EngineError(f"cublaslt: {what}: {error}") from error
    except own as error:
        refused = "NOT_SUPPORTED" in str(error) or "INVALID_VALUE" in str(error)
        kind = UnsupportedGraphError if refused else EngineError
        raise kind(f"cublaslt: {what}: {error}") from error


class Library:
    """The bindings, and a handle. Raises `EngineUnavailableError`."""

    def __init__(self) -> None:
        try:
            self.lt = import_module("nvmath.bindings.cublasLt")
            self._blas = import_module("nvmath.bindings.cublas")
            self.error: type[Exception] = self.lt.cuBLASLtError
            self.handle = self.lt.create()
        except (ImportError, OSError, RuntimeError) as error:
            what = f"cuBLASLt does not load: {error}"
            raise EngineUnavailableError(f"{what}; pip install 'dnn-bench[cublaslt]'") from error

    def versions(self) -> dict[str, str]:
        number = int(self.lt.get_version())
        found = {"cublaslt": f"{number // 10000}.{number // 100 % 100}.{number % 100}"}
        for name in ("nvmath-python", "nvidia-cublas"):
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
        return found

    def problem(self, product: Product, *, tf32: bool) -> Problem:
        return Problem(self, product, tf32=tf32)

    def compute(self, product: Product, *, tf32: bool) -> tuple[int, str]:
        if product.compute not in COMPUTE:
            raise UnsupportedGraphError(f"cublaslt: there are no sums in {product.compute}")
        name, factor = COMPUTE[product.compute]
        in_float = product.a.data_type == "float" and name == "COMPUTE_32F"
        return int(self._blas.ComputeType[TF32 if tf32 and in_float else name]), factor

    def close(self) -> None:
        self.lt.destroy(self.handle)


class Problem:
    """Descriptors of one product. An execution has its own, since the address of the bias is part
    of them."""

    def __init__(self, library: Library, product: Product, *, tf32: bool) -> None:
        self._library, self._lt, self._product = library, library.lt, product
        compute, factor = library.compute(product, tf32=tf32)
        for matrix in (product.a, product.b, product.d):
            if matrix.data_type not in TYPES:
                raise UnsupportedGraphError(f"cublaslt: there is no type {matrix.data_type}")
        self._alpha, self._beta = np.ones(1, FACTORS[factor]), np.zeros(1, FACTORS[factor])
        self._made: list[tuple[Callable[[int], None], int]] = []
        with errors(library.error, "describe the product"):
            self._desc = self._lt.matmul_desc_create(compute, TYPES[factor])
            self._made.append((self._lt.matmul_desc_destroy, self._desc))
            for name, matrix in (("TRANSA", product.a), ("TRANSB", product.b)):
                if matrix.transposed:
                    self._describe(name, TRANSPOSED)
            self._describe("EPILOGUE", int(self._lt.Epilogue[product.epilogue]))
            self._layouts = [self._layout(m) for m in (product.a, product.b, product.d)]

    def _describe(self, name: str, value: int) -> None:
        attribute = self._lt.MatmulDescAttribute[name]
        kind = self._lt.get_matmul_desc_attribute_dtype(attribute)
        data = np.array([value], kind)
        self._lt.matmul_desc_set_attribute(self._desc, attribute, data.ctypes.data, data.nbytes)

    def _layout(self, matrix: Matrix) -> int:
        lt = self._lt
        kind = TYPES[matrix.data_type]
        made = lt.matrix_layout_create(kind, matrix.rows, matrix.columns, matrix.leading)
        self._made.append((lt.matrix_layout_destroy, made))
        values = {
            "BATCH_COUNT": self._product.batch,
            "STRIDED_BATCH_OFFSET": matrix.batch_stride,
        }
        for name, value in values.items():
            attribute = lt.MatrixLayoutAttribute[name]
            data = np.array([value], lt.get_matrix_layout_attribute_dtype(attribute))
            lt.matrix_layout_set_attribute(made, attribute, data.ctypes.data, data.nbytes)
        return int(made)

    def algorithms(self) -> list[Algorithm]:
        """List the algorithms in the order of the heuristic. Raises `UnsupportedGraphError`."""
        lt = self._lt
        found = lt.MatmulHeuristicResult(MOST_ALGORITHMS)
        count = np.zeros(1, np.int32)
        a, b, d = self._layouts
        with errors(self._library.error, "list algorithms"):
            preference = lt.matmul_preference_create()
            self._made.append((lt.matmul_preference_destroy, preference))
            attribute = lt.MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES
            most = np.array([WORKSPACE_BYTES], np.uint64)
            lt.matmul_preference_set_attribute(preference, attribute, most.ctypes.data, most.nbytes)
            lt.matmul_algo_get_heuristic(
                self._library.handle,
                self._desc,
                a,
                b,
                d,
                d,
                preference,
                MOST_ALGORITHMS,
                found.ptr,
                count.ctypes.data,
            )
        if count[0] == 0:
            return []
        listed = found[: int(count[0])]
        sizes = np.atleast_1d(listed["workspace_size"])
        return [self._algorithm(listed["algo"][i : i + 1], int(n)) for i, n in enumerate(sizes)]

    def _algorithm(self, algorithm: Any, workspace_bytes: int) -> Algorithm:
        data = np.array(algorithm, copy=True)
        parts = []
        for key, name in PARTS.items():
            attribute = self._lt.MatmulAlgoConfigAttribute[name]
            value = np.zeros(1, self._lt.get_matmul_algo_config_attribute_dtype(attribute))
            written = np.zeros(1, np.uint64)
            self._lt.matmul_algo_config_get_attribute(
                data.ctypes.data,
                attribute,
                value.ctypes.data,
                value.nbytes,
                written.ctypes.data,
            )
            parts.append(f"{key}{int(value[0])}")
        return Algorithm("_".join(parts), data, workspace_bytes)

    def call(
        self, algorithm: Algorithm, pack: dict[int, int], workspace: Workspace, stream: int
    ) -> Callable[[], None]:
        """Return a function that runs the plan once, on the addresses that `pack` has then."""
        product, matmul = self._product, self._lt.matmul
        handle, desc = self._library.handle, self._desc
        alpha, beta = self._alpha.ctypes.data, self._beta.ctypes.data
        a, b, d = self._layouts
        first, second, result, bias = product.a.uid, product.b.uid, product.d.uid, product.bias
        data, size = algorithm.data.ctypes.data, algorithm.workspace_bytes
        error = self._library.error
        pointed: int | None = None

        def run() -> None:
            nonlocal pointed
            if bias is not None and pack[bias] != pointed:
                pointed = pack[bias]
                self._describe("BIAS_POINTER", pointed)
            out = pack[result]
            try:
                matmul(
                    handle,
                    desc,
                    alpha,
                    pack[first],
                    a,
                    pack[second],
                    b,
                    beta,
                    out,
                    d,
                    out,
                    d,
                    data,
                    workspace.address,
                    size,
                    stream,
                )
            except error:
                with errors(error, "run"):
                    raise

        return run

    def close(self) -> None:
        for destroy, made in reversed(self._made):
            destroy(made)
        self._made.clear()
