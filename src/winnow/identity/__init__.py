"""Identity of components: the meaning of parameters, their code, and the repositories they name."""
