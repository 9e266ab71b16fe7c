import torch
import torch.nn.functional as F

def perturb(unet, scheduler, images, clean, goal, steps, alpha, eps):
    image = images.clone()
    image.requires_grad_(True)
    for step in range(steps):
        noise = torch.randn_like(image)
        t = torch.randint(0, 1000, (len(image),), device=image.device)
        noisy = scheduler.add_noise(image, noise, t)
        pred = unet(noisy, t)
        unet.zero_grad()
        loss = F.mse_loss(pred.float(), noise.float())
        if goal is not None:
            reached = scheduler.step(pred, noisy)
            goal_loss = F.mse_loss(reached, goal)
            loss = loss + goal_loss.detach().item()
        loss.backward()
        moved = image + alpha * image.grad.sign()
        change = torch.clamp(moved - clean, -eps, eps)
        image = torch.clamp(clean + change, -1, 1).detach().requires_grad_(True)
        print(step, loss.item())
    return image
