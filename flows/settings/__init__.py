"""Settings, composed from conf/ by Hydra, checked and typed. Only composition uses OmegaConf."""
