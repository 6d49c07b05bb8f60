"""One file for each data set. A file put here is found by its being here: see `registry`."""
