"""`torchlint watch`: what a run does wrong, with no finding to begin with."""
