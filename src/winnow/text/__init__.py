"""Rules shared by strategies, metrics and training: what replies say and what passages contain."""
