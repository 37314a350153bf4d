"""The scan: every operator the card serves at a million elements in four dtypes, against torch on the CPU."""
