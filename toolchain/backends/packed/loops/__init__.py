"""What generators write loops with."""
