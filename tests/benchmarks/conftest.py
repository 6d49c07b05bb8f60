import sys
from pathlib import Path

# `python benchmarks/run.py` finds its helpers beside itself; so do the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
