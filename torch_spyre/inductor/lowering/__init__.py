"""Calls of an imported graph become ops of the IR, by the lowerings that serve eager calls."""
