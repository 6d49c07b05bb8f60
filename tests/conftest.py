"""Settings for all tests."""

import os

from hypothesis import settings

# Deadlines measure the machine's load, not the code.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")

# Some tests compute in float64, which JAX leaves out by default.
os.environ.setdefault("JAX_ENABLE_X64", "1")
