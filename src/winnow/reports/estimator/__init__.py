"""The report on a relevance estimator: tables 2 to 5 and figures 3 and 4 of RE-RAG, and calibration
measures of our own.
"""
