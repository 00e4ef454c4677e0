"""What travels: OTLP in, firstfault's own messages out; bytes to records and back."""
