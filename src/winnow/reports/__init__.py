"""Reports that show metrics of predictions in tables and plots, as one HTML page and Markdown."""
