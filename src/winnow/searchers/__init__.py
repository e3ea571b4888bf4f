"""Search engines: engines that serve Search requests of strategies."""
