"""One module for each verb: reads files, prints, sets the exit code."""
