"""Which files and definitions can have a finding at all, told before they are analysed."""
