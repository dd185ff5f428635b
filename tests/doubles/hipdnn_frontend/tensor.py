"""`Tensor`, as far as a variant pack has one for a key: its fields, and its uid."""

from __future__ import annotations


class Tensor:
    def __init__(self):
        self._value_uid = None

    def get_uid(self):
        return 0 if self._value_uid is None else self._value_uid

    def has_uid(self):
        return self._value_uid is not None

    def clear_uid(self):
        self._value_uid = None
        return self
