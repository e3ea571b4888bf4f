"""Strategies of several rounds, which search again for what their earlier rounds wrote."""
