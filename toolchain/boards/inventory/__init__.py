"""The boards there are, and how one is entered or taken out."""
