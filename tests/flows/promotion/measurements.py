"""Measurements that meet every criterion of the default policy."""

from flows.promotion.gate import Measurements

GOOD = Measurements(agreement=1.0, max_abs_diff=1e-6, checks_passed=True, megabytes=10.0, latency_ms=5.0)
