"""Search strategies. One file per strategy; the file name is the name in the settings."""
