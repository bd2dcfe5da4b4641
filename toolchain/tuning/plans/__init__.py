"""Plans: what edge-rt is asked to measure, be it in an exported folder or in a session."""
