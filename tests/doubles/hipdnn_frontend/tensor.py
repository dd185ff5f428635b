"""`Tensor`, as far as tests hold it: its fields, its value, and whether it is whole."""

from __future__ import annotations

import math

from .errors import bad, good
from .surface import namespace, profile


class Tensor:
    def __init__(self):
        self._value_uid, self._value_name, self._value = None, "", None
        self._value_dim, self._value_stride = [], []
        self._value_data_type = namespace["DataType"]["NOT_SET"]
        self._value_is_virtual, self._value_is_pass_by_value = False, False

    def create(dims, data_type):
        tensor = namespace["Tensor"]().set_dim(list(dims)).set_data_type(data_type)
        return tensor.set_stride([math.prod(dims[place + 1 :]) for place in range(len(dims))])

    def get_uid(self):
        return 0 if self._value_uid is None else self._value_uid

    def has_uid(self):
        return self._value_uid is not None

    def clear_uid(self):
        self._value_uid = None
        return self

    def set_output(self, is_output):
        self._value_is_virtual = not is_output
        return self

    def set_value(self, value, data_type=None):
        self._value, self._value_is_pass_by_value = value, True
        self._value_dim = self._value_stride = [1]
        if profile == "newest" and data_type is not None:
            self._value_data_type = data_type
        return self

    def get_is_runtime_pass_by_value(self):
        return self._value_is_pass_by_value and self._value is None

    def get_volume(self):
        return math.prod(self._value_dim)

    def validate(self):
        if len(self._value_dim) != len(self._value_stride) or not self._value_dim:
            return bad("ATTRIBUTE_NOT_SET", "Tensor: dims and strides are not set")
        return good()
