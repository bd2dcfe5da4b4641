"""Networks outside the zoo, by family, with seeded weights: what people bring, for benchmarks and tests."""
