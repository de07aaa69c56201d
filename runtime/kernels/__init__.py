"""Numpy arrays in, numpy arrays out; no Spark, no plans. All speed lives here."""
