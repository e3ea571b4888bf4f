"""Local models: loading, sentence encoders, pair models and inference runtimes."""
