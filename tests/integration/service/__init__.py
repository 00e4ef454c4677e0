"""The whole service as a real process, killed and started again under load."""
