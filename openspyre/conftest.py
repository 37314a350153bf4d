"""Property tests have no deadline: shared and sanitized machines are slow, not wrong."""

from hypothesis import settings

settings.register_profile("openspyre", deadline=None)
settings.load_profile("openspyre")
