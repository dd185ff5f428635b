"""The `Error` values that graph steps return in place of raising."""

from __future__ import annotations

from .enums import ErrorCode


class Error:
    def __init__(self, code, err_msg=""):
        self.code, self.err_msg = code, err_msg

    def get_code(self):
        return self.code

    def get_message(self):
        return self.err_msg

    def is_good(self):
        return self.code is ErrorCode.OK

    def is_bad(self):
        return not self.is_good()


GOOD = Error(ErrorCode.OK)


def bad(name, message):
    return Error(ErrorCode[name], message)
