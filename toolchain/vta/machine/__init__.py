"""The simulator of VTA, a child process, with its protocol and traces."""
