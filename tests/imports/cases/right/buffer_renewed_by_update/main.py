from agent import Agent

agent = Agent()
agent.train()
assert not agent.log_probs
