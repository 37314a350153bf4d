"""A bundle in Inductor's code, its programs for the inputs that come, and what is kept of them."""
