"""Generated from proto/firstfault/v1 by proto/compile.py: change those files, not these."""
