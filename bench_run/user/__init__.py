"""Python files of a user: kernels (`kernel@FILE`) and operators with a reference (`case@FILE`)."""
