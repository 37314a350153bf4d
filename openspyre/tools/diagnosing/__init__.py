"""The archive of a bug report: what somebody else needs to find a fault, and nothing that is the user's own."""
