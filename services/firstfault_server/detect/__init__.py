"""Hosts that drive the core's stages: this package decides when a stage is called, never what it decides."""
