"""The promises of every engine, asked of hipdnn on an AMD GPU."""

from __future__ import annotations

import pytest

from tests.conformance.test_promises import *  # noqa: F403 - the list of promises is one

pytestmark = pytest.mark.hardware
