"""Images to and from registries and files."""
