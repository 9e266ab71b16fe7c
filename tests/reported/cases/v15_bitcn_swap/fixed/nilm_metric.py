def get_abs_error(target, prediction):
    return abs(target - prediction).mean().item()


def tp_fp_fn(pred, ground, threshold):
    on_pred = pred > threshold
    on_ground = ground > threshold
    tp = (on_pred & on_ground).sum().item()
    fp = (on_pred & ~on_ground).sum().item()
    fn = (~on_pred & on_ground).sum().item()
    return tp, fp, fn


def recall_precision_f1(prediction, ground_truth, threshold):
    tp, fp, fn = tp_fp_fn(prediction, ground_truth, threshold)
    recall = tp / max(tp + fn, 1)
    precision = tp / max(tp + fp, 1)
    f1 = 2 * recall * precision / max(recall + precision, 1e-8)
    return recall, precision, f1
