"""Settings: what a project can set, and where that comes from."""
