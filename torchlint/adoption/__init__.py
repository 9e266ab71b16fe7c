"""torchlint on old code: baselines, changed lines, added comments."""
