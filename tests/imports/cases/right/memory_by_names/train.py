import torch
from models import Env, Policy
from agent import Agent


def main():
    env = Env()
    agent = Agent(Policy())
    for episode in range(4):
        state, done = env.reset(), False
        while not done:
            action = agent.act(state)
            state, reward, done, _ = env.step(action)
            agent.memory.rewards.append(reward)
        agent.update()


if __name__ == "__main__":
    main()
