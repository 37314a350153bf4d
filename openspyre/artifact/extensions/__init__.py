"""Ops that the hardware does not have: the record that their SuperDSC carries, its JSON, and what must be true of it."""
