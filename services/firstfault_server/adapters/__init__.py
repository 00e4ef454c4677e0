"""Implementations of the ports; no adapter knows another."""
