"""Launches as directories: what ran, on which bytes of the card, and what came of it, so that `openspyre run` does it again."""
