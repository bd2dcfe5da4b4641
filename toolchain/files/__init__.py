"""Files and folders: whole or not at all, owned, locked, plain."""
