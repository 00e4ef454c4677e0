"""What keeps the stores as they should be: retention by age and size."""
