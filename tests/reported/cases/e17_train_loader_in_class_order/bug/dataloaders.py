from torch.utils.data import DataLoader

from datasets import ImageNetDataset

DEFAULTS = {
    "imagenet_dataset_params": {
        "train_dataset_params": {"root": "/data/Imagenet/train", "per_class": 100},
        "val_dataset_params": {"root": "/data/Imagenet/val", "per_class": 40},
        "train_dataloader_params": {"batch_size": 64, "num_workers": 0, "drop_last": True},
        "val_dataloader_params": {"batch_size": 200, "num_workers": 0, "drop_last": False},
    },
}


def _process_params(defaults, given):
    params = dict(defaults)
    params.update(given or {})
    return params


def get_data_loader(config_name, dataset_cls, train, dataset_params=None, dataloader_params=None):
    cfg = DEFAULTS[config_name]
    split = "train" if train else "val"
    dataset = dataset_cls(**_process_params(cfg[f"{split}_dataset_params"], dataset_params))
    dataloader = DataLoader(dataset=dataset, **_process_params(cfg[f"{split}_dataloader_params"], dataloader_params))
    dataloader.dataloader_params = dataloader_params
    return dataloader


def imagenet_train(dataset_params=None, dataloader_params=None):
    return get_data_loader("imagenet_dataset_params", ImageNetDataset, True, dataset_params, dataloader_params)


def imagenet_val(dataset_params=None, dataloader_params=None):
    return get_data_loader("imagenet_dataset_params", ImageNetDataset, False, dataset_params, dataloader_params)
