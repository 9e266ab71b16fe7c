pytest_plugins = ["torchlint.testing.blessing"]  # the option --bless
