"""Matrix products whose tiles a work group keeps in shared memory, for GPUs."""
