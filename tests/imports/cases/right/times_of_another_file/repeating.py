def repeat(call, text, times=2):
    for _ in range(times):
        call(text)
