"""The estimator report: RE-RAG tables 2 to 5 and figures 3 and 4, and our calibration measures."""
