"""Container images and the engine that runs them."""
