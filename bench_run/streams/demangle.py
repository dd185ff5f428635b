"""Readable names of kernels, by the C++ library's own function where it is there."""

from __future__ import annotations

import ctypes
from functools import lru_cache


@lru_cache(maxsize=1024)
def demangle(name: str) -> str:
    """``void f<int>(int*)`` for ``_Z1fIiEvPT_``; the name itself where it is no mangled one."""
    library = _library()
    if library is None or not name.startswith("_Z"):
        return name
    status = ctypes.c_int()
    place = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if not place:
        return name
    text = ctypes.string_at(place).decode(errors="replace")
    library.free(ctypes.c_void_p(place))
    return text


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return None
    library.__cxa_demangle.restype = ctypes.c_void_p
    return library
