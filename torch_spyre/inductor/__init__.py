"""Inductor's backend for the device: its lowered graph is imported once into our IR, and each run of it is one launch."""
