"""From a graph of ops to a bundle. Knows no torch, no back end and no card."""
