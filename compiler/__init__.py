"""From text to plans: parse, bind, passes, lower, explain. Opens nothing: no files, no Spark."""
