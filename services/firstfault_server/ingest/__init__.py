"""Receivers: OTLP in over HTTP and gRPC; authenticate, limit, split, append to the log, and only then acknowledge."""
