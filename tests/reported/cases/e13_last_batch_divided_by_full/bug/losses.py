from torch import nn


class Losses:
    def __init__(self, *args, **kwargs):
        self.loss_object = self.create_loss_object(*args, **kwargs)

    def create_loss_object(self, loss_type, *args, **kwargs):
        if loss_type == 'M_XENTROPY':
            return M_XENTROPY(*args, **kwargs)
        if loss_type == 'MSE':
            return MSE(*args, **kwargs)
        raise ValueError(f'Invalid loss type: {loss_type}')

    def loss(self, predictions, data, **kwargs):
        return self.loss_object.loss(predictions, data, **kwargs)


class M_XENTROPY:
    def __init__(self, *args, **kwargs):
        self.cross_entropy_loss = nn.CrossEntropyLoss(reduction='sum')

    def loss(self, predictions, data, **kwargs):
        return self.cross_entropy_loss(predictions, data['labels'])


class MSE:
    def __init__(self, *args, **kwargs):
        self.mse_loss = nn.MSELoss(reduction='sum')

    def loss(self, predictions, data, **kwargs):
        return self.mse_loss(predictions, data['annots'])
