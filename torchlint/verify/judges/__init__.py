"""One judge a rule, by what the rules are about."""
