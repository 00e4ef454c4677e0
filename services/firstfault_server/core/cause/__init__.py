"""Says what a failure is, what failed first, and whose problem it is."""
