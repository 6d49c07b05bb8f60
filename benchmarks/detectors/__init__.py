"""What a user would choose instead of a scale-covariant detector."""
