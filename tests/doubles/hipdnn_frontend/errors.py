"""The `Error` values that graph steps return in place of raising."""

from __future__ import annotations

from .surface import namespace


class Error:
    def __init__(self, code=None, err_msg=""):
        self._code = namespace["ErrorCode"]["OK"] if code is None else code
        self._err_msg = err_msg

    def get_code(self):
        return self._code

    def get_message(self):
        return self._err_msg

    def is_good(self):
        return self._code.name == "OK"

    def is_bad(self):
        return self._code.name != "OK"


def good():
    return namespace["Error"]()


def bad(name, message):
    return namespace["Error"](namespace["ErrorCode"][name], message)
