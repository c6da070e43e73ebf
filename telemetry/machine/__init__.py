"""The machine that edgepipe runs on: what it is, and whether it is fit to measure."""
