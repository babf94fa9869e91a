"""Results of an earlier analysis that are still valid."""
