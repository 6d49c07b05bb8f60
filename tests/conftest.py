"""Settings for all tests."""

from hypothesis import settings

# Deadlines measure the machine's load, not the code.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
