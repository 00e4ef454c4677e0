"""The distributed service with real servers and without containers, for tests and laptops."""
