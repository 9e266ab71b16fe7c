import torch

from method import DeepMethod
from tables import housing


def main():
    torch.manual_seed(0)
    table = housing()
    method = DeepMethod({"hidden": 64, "lr": 3e-3, "batch_size": 64, "epochs": 30}).fit(table)
    prediction = method.predict(table.features).flatten().numpy()
    truth = table.labels.flatten().numpy()
    residual = ((prediction - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
    print(f"R2 {1 - residual:.3f}, spread of predictions {prediction.std():.3f} of {truth.std():.3f}")


if __name__ == "__main__":
    main()
