"""Where rows come from: frames and Spark sources, cleaned and put in order."""
