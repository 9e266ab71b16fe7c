def show_outputs(net, inputs):
    for x in inputs:
        print(" ".join(f"{value:6.2f}" for value in net(x).tolist()))
