"""Numbers of networks on OpenCL devices; `benchmarks/opencl.py` is their command line."""
