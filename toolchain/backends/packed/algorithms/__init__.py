"""The algorithms for contractions, and the policy that chooses among them."""
