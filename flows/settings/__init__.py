"""Settings: composed from conf/ by Hydra, checked, and typed. Only what composes them knows
OmegaConf.
"""
