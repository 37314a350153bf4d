"""The models people bring: families with small random configurations, and real weights. `python -m tests.models` makes docs/models.md."""
