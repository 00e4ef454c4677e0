"""A small but real multi-process training job that can fail in every way the service must tell apart."""
