"""Running plans on Spark: connections, replay, live streams, operators and kernels."""
