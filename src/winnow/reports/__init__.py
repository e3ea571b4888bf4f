"""Reports: tables and plots of predictions, as one HTML page and as Markdown."""
