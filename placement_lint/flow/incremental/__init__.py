"""What is known from an earlier analysis, and holds still."""
