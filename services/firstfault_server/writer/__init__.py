"""What fills the stores from the topics of detection, and keeps them as they should be: retention by age and size."""
