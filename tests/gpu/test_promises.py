"""The promises of every engine, asked of those on a GPU."""

from __future__ import annotations

import pytest

from tests.conformance.test_promises import *  # noqa: F403

pytestmark = pytest.mark.gpu
