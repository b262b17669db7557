"""Reading many runs: learning curves, comparison, plots and the HTML report."""
