"""The evaluation of an estimator: tables 2 to 5 and figures 3 and 4 of RE-RAG, and calibration curves, which are ours."""
