"""Where results leave the pipeline; each module is one kind of sink."""
