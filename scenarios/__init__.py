"""The families that come with onceproof: one module each, importing none of the heavy dependencies."""
