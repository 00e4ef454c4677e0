"""Real multi-process training jobs that fail on purpose, and the incident each must become."""
