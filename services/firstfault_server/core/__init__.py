"""The pure detection core: records in, records out; no clock, no I/O, no randomness."""
