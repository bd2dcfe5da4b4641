"""Power of boards: switching it by the user's commands, and reviving boards that went silent."""
