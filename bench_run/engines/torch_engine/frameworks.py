"""Other frameworks on PyTorch's memory: arrays without a copy, and work on the stream of the run.

Arrays are made once for each set of buffers (DLPack, ``__cuda_array_interface__``). A returned
array becomes a tensor, again without a copy.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from bench_run.errors import EngineUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable


class Framework:
    """PyTorch itself."""

    foreign = False
    """True if arrays differ from PyTorch's tensors."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def give(self, tensor: torch.Tensor) -> Any:
        """Return the tensor's memory in the framework's form."""
        return tensor

    def take(self, value: Any) -> Any:
        """Return a result as a tensor; as it is if it cannot be one."""
        return value

    def stream(self) -> Any:
        """Return the stream of the run in the framework's form."""
        return None if self.device.type == "cpu" else torch.cuda.current_stream(self.device)

    def context(self) -> AbstractContextManager[Any]:
        """Make the stream of the run the current one."""
        return nullcontext()

    def finish(self, found: Any) -> Any:
        """Return the results, complete as far as the stream of the run does not tell."""
        return found


class _Foreign(Framework):
    foreign = True

    def __init__(self, device: torch.device, module: Any) -> None:
        super().__init__(device)
        self.module = module

    def take(self, value: Any) -> Any:
        if type(value) is torch.Tensor or not hasattr(value, "__dlpack__"):
            return value
        return torch.from_dlpack(value)


class _Numpy(_Foreign):
    """NumPy functions, on a processor."""

    def give(self, tensor: torch.Tensor) -> Any:
        return tensor.numpy()

    def take(self, value: Any) -> Any:
        return torch.from_numpy(value) if type(value) is self.module.ndarray else value


class _Cupy(_Foreign):
    def __init__(self, device: torch.device, module: Any) -> None:
        super().__init__(device, module)
        pointer = torch.cuda.current_stream(device).cuda_stream
        self._stream = module.cuda.ExternalStream(pointer)

    def give(self, tensor: torch.Tensor) -> Any:
        return self.module.from_dlpack(tensor)

    def stream(self) -> Any:
        return self._stream

    def context(self) -> AbstractContextManager[Any]:
        stream: AbstractContextManager[Any] = self._stream
        return stream


class _Numba(_Foreign):
    """Kernels are launched with ``[grid, block, stream]``: `stream` is a keyword-only parameter."""

    def give(self, tensor: torch.Tensor) -> Any:
        return self.module.cuda.as_cuda_array(tensor)

    def take(self, value: Any) -> Any:
        is_array = hasattr(value, "__cuda_array_interface__")
        return torch.as_tensor(value, device=self.device) if is_array else value

    def stream(self) -> Any:
        pointer = torch.cuda.current_stream(self.device).cuda_stream
        return self.module.cuda.external_stream(pointer)


class _Jax(_Foreign):
    """JAX has a stream of its own: an execution begins once ours is idle, and ends with JAX's."""

    def give(self, tensor: torch.Tensor) -> Any:
        return self.module.dlpack.from_dlpack(tensor)

    def context(self) -> AbstractContextManager[Any]:
        if self.device.type != "cpu":
            torch.cuda.current_stream(self.device).synchronize()
        return nullcontext()

    def finish(self, found: Any) -> Any:
        return self.module.block_until_ready(found)


_CLASSES: dict[str, Callable[[torch.device, Any], Framework]] = {
    "numpy": _Numpy,
    "cupy": _Cupy,
    "numba": _Numba,
    "jax": _Jax,
}


def framework(name: str, device: torch.device) -> Framework:
    """Return the framework. Raises `EngineUnavailableError` if it is not installed."""
    if name not in _CLASSES:
        return Framework(device)
    from importlib import import_module

    try:
        module = import_module(name)
        if name == "numba":
            import_module("numba.cuda")
    except ImportError as error:
        raise EngineUnavailableError(f"the file uses {name}, which does not load: {error}") from (
            error
        )
    return _CLASSES[name](device, module)
