"""Steps of ops that the hardware does not have, from the records their SuperDSCs carry: a lowering per kind of row."""
