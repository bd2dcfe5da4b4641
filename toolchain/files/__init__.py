"""Safe file access: atomic writes, ownership checks, locks, and refusal of anything but regular files."""
