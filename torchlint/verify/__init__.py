"""The runtime verifier: runs the user's own program under observation and judges findings by what happened."""
