"""Bytes that earlier versions wrote, and what they mean: proto/golden."""
