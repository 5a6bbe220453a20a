"""Open Policy Agent engine: bundle, server and a client that fails closed."""
