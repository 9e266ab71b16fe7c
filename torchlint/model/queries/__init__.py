"""Questions about what was interpreted: what rules ask."""
