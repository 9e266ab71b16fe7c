"""Many files: what is known of them already, and processes that lint the rest."""
