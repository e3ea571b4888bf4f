"""The identity of components: what their parameters mean, which code they run, and which
repositories they name.
"""
