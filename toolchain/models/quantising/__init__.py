"""Networks in 8-bit integers: what is quantised, by which powers of two, and what that costs."""
