"""Models on this machine: loading, sentence encoders, pair models, and what runs them."""
