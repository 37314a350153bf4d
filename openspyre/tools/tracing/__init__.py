"""Traces of torch.profiler, read and told: what took the time, and what a real card would have taken."""
