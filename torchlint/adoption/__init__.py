"""torchlint on old code: what is new, and what is excused."""
