"""Reads crash text, gives failures an identity, and says which failures are the same."""
