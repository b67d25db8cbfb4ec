"""From a checkpoint to a directory that somebody else can load, verified by loading it in a fresh process."""
