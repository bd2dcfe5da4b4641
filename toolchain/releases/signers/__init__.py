"""Holders of private keys that sign releases and trusts: OpenSSH files, the agent, PKCS#11 modules."""
