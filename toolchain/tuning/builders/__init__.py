"""Compiles candidates in processes of this host or on a Dask fleet, and links them."""
