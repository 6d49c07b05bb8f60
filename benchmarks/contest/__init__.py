"""The contestants of `benchmarks/run.py`, and what measures them."""
