"""Other programs: Prefect, DVC, servers, and the terminal."""
