"""Fetches the flights, so that no job of `benchmarks codecs` waits for them."""

import sys

from benchmarks.harness.record import ROOT

sys.path.insert(0, str(ROOT / "examples" / "ctr"))

import flights

flights.load()
