"""Which tensors of a program stay in the cores' scratchpads, and where. Solvers know requests alone; `tensors.py` makes them of the IR."""
