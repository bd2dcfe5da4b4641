"""Where candidates are compiled: in processes of this host, or by a fleet."""
