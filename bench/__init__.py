"""Side-by-side benchmarks: the card against torch on the CPU and plain memcpy, in one run; see `python -m bench -h`."""
