"""How likely a tool helps: calibration and the cutoff below which nothing fits."""
