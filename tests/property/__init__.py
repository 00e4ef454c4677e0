"""Properties of the core over scripted runs."""
