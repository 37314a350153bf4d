"""Inductor's graph becomes ours: which calls run on the card, and the bundles they make."""
