"""Check many files in one run: in processes or on other machines, with cached or new results."""
