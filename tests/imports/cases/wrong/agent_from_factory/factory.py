from agents import Reinforce

AGENTS = {"reinforce": Reinforce}


def make_agent(name):
    return AGENTS[name]()
