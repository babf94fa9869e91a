"""Many files to one run: in processes or on other machines, from the cache or anew."""
