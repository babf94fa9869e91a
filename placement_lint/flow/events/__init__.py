"""What the analysis tells the rules: its events, and the facts that they carry."""
