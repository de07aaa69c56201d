"""One file per physical operator: init, step, and how replay cuts the work."""
