"""The settings of a project, and their sources."""
