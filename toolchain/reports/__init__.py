"""Self-contained HTML pages: no scripts, nothing fetched."""
