"""The output of the analysis for the rules: its events, and the facts that they carry."""
