"""Tiles: ops under hints become nests of counted loops, which work on one tile after the other."""
