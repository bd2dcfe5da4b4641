// The emulated driver includes its own edge_half.h before every text of kernels.
