"""Measured, not claimed: one module per claim, baseline and ours side by side in one run."""
