"""Numbers of networks on a VTA; `benchmarks/vta.py` is their command line."""
