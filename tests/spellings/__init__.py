"""Programs that say the same training bug, or harmless thing, in many spellings: for what must not depend on those."""
