"""Reports a training process to firstfault without ever getting in its way."""
