"""Side-by-side measurements; each prints figures and ratios and writes JSON to `benchmarks/results/`."""
