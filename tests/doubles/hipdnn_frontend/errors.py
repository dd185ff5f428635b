"""The `Error` values that graph steps return in place of raising."""

from __future__ import annotations

from .surface import classes


class Error:
    def __init__(self, code, err_msg=""):
        self._code, self._err_msg = code, err_msg

    def get_code(self):
        return self._code

    def get_message(self):
        return self._err_msg

    def is_good(self):
        return self._code.name == "OK"

    def is_bad(self):
        return self._code.name != "OK"


def good():
    return bad("OK", "")


def bad(name, message):
    return classes["Error"](classes["ErrorCode"][name], message)
