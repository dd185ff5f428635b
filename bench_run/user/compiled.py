"""Kernels in C, C++, CUDA and HIP: sources are built once, libraries are called as they are.

A function has the signature of ``bench_kernel.h``, which lies beside this module and on the
compiler's include path: tensors as DLPack's ``DLTensor``, a workspace, the stream. A library of
``apache-tvm-ffi`` is called through that package. Both become a module with one function for each,
as if a person had written it in Python.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from ctypes import (
    POINTER,
    Structure,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint64,
)
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bench_run.errors import EngineError, EngineUnavailableError, UnsupportedGraphError
from bench_run.files import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_run.graph.model import Tensor


@dataclass(frozen=True)
class Compiler:
    variable: str
    """Environment variable that names another one."""
    command: str
    flags: tuple[str, ...]


ON_GPU = "torch"
ON_PROCESSOR = "numpy"
HOST = ("-O3", "-march=native", "-shared", "-fPIC")
ARCH = "-arch=native"
"""Default of nvcc; the flags of a source may replace it."""
NVCC = Compiler(
    "NVCC",
    "nvcc",
    ("-O3", ARCH, "-lineinfo", "-Xptxas=-v", "-shared", "-Xcompiler=-fPIC"),
)
HIPCC = Compiler("HIPCC", "hipcc", ("-O3", "-shared", "-fPIC"))
CXX = Compiler("CXX", "c++", HOST)
CC = Compiler("CC", "cc", HOST)
COMPILERS: Mapping[str, Compiler] = {
    ".cu": NVCC,
    ".hip": HIPCC,
    ".cpp": CXX,
    ".cc": CXX,
    ".cxx": CXX,
    ".c": CC,
}
LIBRARY = ".so"
SUFFIXES = (*COMPILERS, LIBRARY)
FLAGS = re.compile(r"\s*(?://|/\*)\s*flags:\s*(.*?)\s*(?:\*/)?\s*")
"""The first line of a source may say how it is built: ``// flags: -std=c++20``."""
_DEFINED = re.compile(r'(?:BENCH_KERNEL\s*\(\s*(\w+)\s*\)|extern\s+"C"\s+int\s+(\w+)\s*\()')
_INCLUDED = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_OF_GPU = (b".nv_fatbin", b"libcudart", b"libcuda.so", b".hip_fatbin", b"libamdhip64")
TVM = "__tvm_ffi_"
"""Begins the symbols of ``apache-tvm-ffi``."""
MOST_LOG = 400


def is_compiled(path: Path) -> bool:
    return path.suffix in SUFFIXES


def framework_of(path: Path) -> str:
    """Return the framework whose memory the functions use, by suffix, or by a library's links."""
    if path.suffix == LIBRARY:
        data = path.read_bytes()
        return ON_GPU if any(mark in data for mark in _OF_GPU) else ON_PROCESSOR
    return ON_GPU if COMPILERS[path.suffix] in (NVCC, HIPCC) else ON_PROCESSOR


@dataclass(frozen=True)
class Built:
    """A library, and how it came to be."""

    library: Path
    facts: Mapping[str, str] = field(default_factory=dict)
    """Compiler, flags, what the assembler says of each kernel, hash of the library."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the headers of its folder, by path relative to it."""


def build(path: Path) -> Built:
    """Return the library of a source; build it unless the cache holds it. Raises `EngineError` with
    the compiler's first error, `EngineUnavailableError` without a compiler."""
    if path.suffix == LIBRARY:
        return Built(path)
    compiler = COMPILERS[path.suffix]
    command = [*shlex.split(os.environ.get(compiler.variable) or compiler.command)]
    if shutil.which(command[0]) is None:
        raise EngineUnavailableError(
            f"{path.name}: no compiler {command[0]} on the PATH; {compiler.variable} names another"
        )
    own = _own_flags(path)
    has_arch = any(each.lstrip("-").startswith(("arch", "gencode", "gpu-arch")) for each in own)
    flags = [each for each in compiler.flags if each != ARCH or not has_arch]
    command += [*flags, *own, f"-I{Path(__file__).parent}"]
    version = _version(command[0])
    headers = dict(_headers(path, path.parent))
    told = "\0".join((path.read_text(), version, *command, *headers.values()))
    base = cache_folder()
    if base is None:
        raise EngineUnavailableError(
            f"{path.name}: no folder for what is built; XDG_CACHE_HOME names one"
        )
    folder = base / "kernels" / hashlib.sha256(told.encode()).hexdigest()[:32]
    library, log = folder / f"{path.stem}.so", folder / "log.txt"
    if not library.exists():
        _compile(path, command, library, log)
    text = log.read_text()
    facts = {
        Path(command[0]).name: version,
        **({"flags": shlex.join(own)} if own else {}),
        "library": hashlib.sha256(library.read_bytes()).hexdigest()[:12],
        **assembled(text),
    }
    return Built(library, facts, headers)


def _compile(path: Path, command: Sequence[str], library: Path, log: Path) -> None:
    """Build in a temporary folder and move the library to its place, since workers build at the
    same time."""
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as place:
        made = Path(place) / library.name
        whole = [*command, path.name, "-o", str(made)]
        done = subprocess.run(whole, capture_output=True, text=True, cwd=path.parent, check=False)  # noqa: S603 - the user's own file
        said = f"{done.stdout}{done.stderr}"
        if done.returncode != 0:
            wrong = first_error(said)
            named = wrong if wrong.startswith(path.name) else f"{path.name}: {wrong}"
            raise EngineError(named, detail=said)
        noted = Path(place) / log.name
        noted.write_text(f"{shlex.join(whole)}\n{said}")
        noted.replace(log)
        made.replace(library)


def _own_flags(path: Path) -> list[str]:
    with path.open() as file:
        found = FLAGS.fullmatch(file.readline())
    return [] if found is None else shlex.split(found[1])


@cache
def _version(command: str) -> str:
    """Return the last word of ``nvcc --version`` that is a version; for other compilers the
    first."""
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - a compiler
    found = re.findall(r"\d+\.\d+(?:\.\d+)?", done.stdout)
    return "unknown" if not found else str(found[-1] if "nvcc" in command else found[0])


def _headers(path: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield path and hash of the headers in the folder, and of the headers that these include."""
    for name in _INCLUDED.findall(path.read_text(errors="replace")):
        header = (path.parent / name).resolve()
        if header.is_file() and header.is_relative_to(folder):
            yield str(header.relative_to(folder)), hashlib.sha256(header.read_bytes()).hexdigest()
            yield from _headers(header, folder)


def first_error(said: str) -> str:
    """Return the line of a compiler's output with the mistake."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    wrong = next((line for line in lines if re.search(r"error\b.*:", line)), None)
    chosen = wrong or (lines[-1] if lines else "the compiler said nothing")
    return chosen[:MOST_LOG]


_FUNCTION = re.compile(r"Function properties for (\S+)")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")


def assembled(log: str) -> dict[str, str]:
    """Return registers, stack and spills of each kernel from the output of ``ptxas -v``."""
    facts: dict[str, list[str]] = {}
    name = ""
    for line in log.splitlines():
        if found := _FUNCTION.search(line):
            name = found[1]
        elif found := _SPILLS.search(line):
            sizes = zip(found.groups(), ("stack", "spill stores", "spill loads"), strict=True)
            facts[name] = [f"{size} B {what}" for size, what in sizes if size != "0"]
        elif (found := _USED.search(line)) and name:
            facts.setdefault(name, []).insert(0, f"{found[1]} registers")
    return {f"ptxas {name}": ", ".join(parts) for name, parts in facts.items()}


class _Device(Structure):
    _fields_ = (("type", c_int32), ("index", c_int32))


class _Type(Structure):
    _fields_ = (("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16))


class _Tensor(Structure):
    """DLPack's ``DLTensor``."""

    _fields_ = (
        ("data", c_uint64),
        ("device", _Device),
        ("ndim", c_int32),
        ("dtype", _Type),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


CODES: Mapping[str, tuple[int, int]] = {
    "int8": (0, 8),
    "int32": (0, 32),
    "int64": (0, 64),
    "uint8": (1, 8),
    "half": (2, 16),
    "float": (2, 32),
    "double": (2, 64),
    "bfloat16": (4, 16),
    "boolean": (6, 8),
    "fp8_e4m3": (10, 8),
    "fp8_e4m3_fnuz": (11, 8),
    "fp8_e5m2": (12, 8),
    "fp8_e5m2_fnuz": (13, 8),
    "fp8_e8m0": (14, 8),
}
"""DLPack's code of a data type, and its bits."""
PROCESSOR, CUDA, ROCM = 1, 2, 10
WHOLE = "__bench_run_whole__"
"""Attribute of a function that takes every input and then every output."""


def module_of(path: Path, built: Built, name: str) -> ModuleType:
    """Return a module with the library's functions. Raises `EngineError`."""
    module = ModuleType(name)
    module.FRAMEWORK = framework_of(path)  # type: ignore[attr-defined]
    try:
        library = ctypes.CDLL(str(built.library))
    except OSError as error:
        raise EngineError(f"{path.name}: does not load: {error}") from error
    found = _functions(path, built.library)
    if not found:
        raise EngineError(
            f"{path.name}: it defines no function; BENCH_KERNEL(name) of bench_kernel.h does"
        )
    for each in found:
        if each.startswith(TVM):
            own = each.removeprefix(TVM)
            setattr(module, own, _of_tvm(built.library, own, name))
        else:
            setattr(module, each, _of_c(library, each, path, name))
    return module


def _functions(path: Path, library: Path) -> list[str]:
    """Return the functions of a source in its order, or the exports of a library."""
    if path.suffix != LIBRARY:
        return [a or b for a, b in _DEFINED.findall(path.read_text())]
    try:
        command = ["nm", "-D", "--defined-only", str(library)]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - a tool of the system
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineUnavailableError(f"{path.name}: nm does not list its functions: {error}") from (
            error
        )
    words = [line.split() for line in listed.splitlines()]
    names = [each[2] for each in words if len(each) == 3 and each[1] == "T"]
    of_tvm = [each for each in names if each.startswith(TVM) and not each.startswith(f"{TVM}_")]
    own = [each for each in names if not each.startswith("_")]
    return of_tvm or [each for each in own if not each.endswith(("_workspace", "_supports"))]


def _of_c(library: ctypes.CDLL, name: str, path: Path, module: str) -> Callable[[Any], Any]:
    """Return a function that prepares a call of C's."""
    call = getattr(library, name)
    call.argtypes = (*_TENSORS, ctypes.c_void_p, c_size_t, ctypes.c_void_p)

    def prepare(p: Any) -> Callable[..., None]:
        graph = p.graph
        tensors = _Tensors(graph.inputs, graph.outputs, p.device)
        if _optional(library, f"{name}_supports", tensors, default=1) == 0:
            raise UnsupportedGraphError(f"{path.name}: {name}_supports says no")
        size = _optional(library, f"{name}_workspace", tensors, default=0)
        workspace = p.workspace(size) if size else None
        place = 0 if workspace is None else address(workspace)
        stream = int(getattr(p.stream, "cuda_stream", 0) or 0)
        seen: dict[tuple[int, ...], tuple[Any, Any]] = {}

        def run(*given: Any) -> None:
            key = tuple(map(id, given))
            if key not in seen:
                seen[key] = tensors.at([address(each) for each in given]), given
            code = call(*seen[key][0], place, size, stream)
            if code != 0:
                words = _cuda_error(code, p.device)
                raise EngineError(f"{path.name}: {name} returned {code}{words}")

        setattr(run, WHOLE, True)
        return run

    return _named(prepare, name, module)


def _of_tvm(library: Path, name: str, module: str) -> Callable[[Any], Any]:
    def prepare(p: Any) -> Callable[..., None]:  # noqa: ARG001 - it takes tensors as they come
        try:
            ffi = import_module("tvm_ffi")
        except ImportError as error:
            what = f"{library.name} is of apache-tvm-ffi, which does not load: {error}"
            raise EngineUnavailableError(f"{what}; pip install apache-tvm-ffi") from error
        call = getattr(ffi.load_module(str(library)), name)

        def run(*given: Any) -> None:
            call(*given)

        setattr(run, WHOLE, True)
        return run

    return _named(prepare, name, module)


def _named(prepare: Callable[[Any], Any], name: str, module: str) -> Callable[..., Any]:
    prepare.__name__ = prepare.__qualname__ = name
    prepare.__module__ = module
    return prepare


_TENSORS = (POINTER(POINTER(_Tensor)), c_int, POINTER(POINTER(_Tensor)), c_int)


class _Tensors:
    """The arguments of a graph's tensors, without addresses."""

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], device: str) -> None:
        kind, _, index = device.partition(":")
        self._device = _Device(PROCESSOR if kind == "cpu" else _gpu(), int(index or 0))
        self._given, self._made = tuple(inputs), tuple(outputs)

    def at(self, addresses: Sequence[int]) -> tuple[Any, int, Any, int]:
        """Return the arguments for tensors at these addresses, inputs first."""
        count = len(self._given)
        ends = (self._given, addresses[:count]), (self._made, addresses[count:])
        inputs, outputs = (self._array(tensors, places) for tensors, places in ends)
        return inputs, count, outputs, len(self._made)

    def empty(self) -> tuple[Any, int, Any, int]:
        return self.at([0] * (len(self._given) + len(self._made)))

    def _array(self, tensors: Sequence[Tensor], addresses: Sequence[int]) -> Any:
        made = [self._one(t, place) for t, place in zip(tensors, addresses, strict=True)]
        array = (POINTER(_Tensor) * max(1, len(made)))(*map(ctypes.pointer, made))
        array.held = made  # type: ignore[attr-defined]
        return array

    def _one(self, tensor: Tensor, address: int) -> _Tensor:
        rank = len(tensor.dims)
        shape, strides = (c_int64 * rank)(*tensor.dims), (c_int64 * rank)(*tensor.strides)
        kind = _Type(*CODES[tensor.data_type], 1)
        return _Tensor(address, self._device, rank, kind, shape, strides, 0)


def _gpu() -> int:
    version = getattr(import_module("torch"), "version", None)
    return ROCM if getattr(version, "hip", None) else CUDA


def address(value: Any) -> int:
    """Return the address of an array's or a tensor's memory."""
    pointer = getattr(value, "data_ptr", None)
    return int(pointer() if pointer is not None else value.__array_interface__["data"][0])


def _optional(library: ctypes.CDLL, name: str, tensors: _Tensors, *, default: int) -> int:
    """Return the value of an optional function for the tensors; `default` without one."""
    try:
        function = getattr(library, name)
    except AttributeError:
        return default
    function.argtypes, function.restype = _TENSORS, c_size_t
    return int(function(*tensors.empty())) & (2**32 - 1 if default else 2**64 - 1)


def _cuda_error(code: int, device: str) -> str:
    """Return the CUDA runtime's text for its error code, in parentheses, as in `` (invalid
    argument)``; a kernel mostly returns such a code. An empty text if it is not known."""
    if device == "cpu":
        return ""
    try:
        runtime = import_module("torch").cuda.cudart()
        return f" ({runtime.cudaGetErrorString(runtime.cudaError(code))})"
    except (AttributeError, ImportError, RuntimeError, TypeError, ValueError):
        return ""
