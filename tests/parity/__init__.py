"""Detection in Flink says what detection in one process says, on the same records in real topics."""
