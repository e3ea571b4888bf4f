"""Reports: predictions to tables, plots, one HTML page and Markdown."""
