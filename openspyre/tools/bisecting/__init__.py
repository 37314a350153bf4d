"""`openspyre bisect`: two runs of the same computation, op by op, and the first op after which they differ."""
