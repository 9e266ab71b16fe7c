OPTIONS = {
    "steps": 50,
    "debug": False,
}
