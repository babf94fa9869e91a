"""One text: decoding, parsing, positions of nodes, suppression comments."""
