"""The contents of images: their sources, the build context, the lock of Python packages."""
