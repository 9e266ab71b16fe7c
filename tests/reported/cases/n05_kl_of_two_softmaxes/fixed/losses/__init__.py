from losses.listwise import TeacherListLoss, TeacherMSELoss


def get_loss(config):
    if config["loss"] == "kl_list":
        return TeacherListLoss()
    if config["loss"] == "mse":
        return TeacherMSELoss()
    raise KeyError(config["loss"])
