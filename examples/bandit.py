"""Train a policy with RSPO in plain PyTorch: a bandit with six arms, in a few seconds on a CPU.

Exactly one arm is right for each prompt, and the prompt does not tell which. The policy draws n
arms for each prompt and gets the reward 1 where it drew the right one. For one draw it is best to
always take the arm that is right most often. For k draws it is best to spread them:

    policy gradient            Pass@1 = 0.36, Pass@4 = 0.36
    RSPO for Pass@4            Pass@1 = 0.26, Pass@4 = 0.63

    python examples/bandit.py
"""

import torch

from rspo.objectives import policy_loss, response_weights

# The share of the prompts for which each arm is right.
SHARES = torch.tensor([0.36, 0.24, 0.16, 0.11, 0.08, 0.05])
PROMPTS = 128
N = 16  # responses to each prompt
STEPS = 600


def train(objective: str, k: int | None = None, seed: int = 0) -> torch.Tensor:
    """Train a policy; returns its probability for each arm, (6,)."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.zeros(len(SHARES), requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.05)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0.01, total_iters=STEPS)
    for _ in range(STEPS):
        # A response is one token, the arm. A language model would sample a text here.
        right = torch.multinomial(SHARES, PROMPTS, replacement=True, generator=generator)
        policy = logits.detach().softmax(-1)
        arms = torch.multinomial(policy.expand(PROMPTS, -1), N, True, generator=generator)
        rewards = arms == right[:, None]  # (PROMPTS, N)

        weights = response_weights(rewards, objective, k)  # (PROMPTS, N)
        log_probs = logits.log_softmax(-1)[arms][..., None]  # (PROMPTS, N, 1)
        mask = torch.ones_like(log_probs)  # 1 on the tokens of a response, 0 on padding
        loss = policy_loss(log_probs, mask, weights, max_tokens=1)

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return logits.detach().softmax(-1)


def pass_at_k(policy: torch.Tensor, k: int) -> float:
    """The exact probability that one of k draws is right."""
    return float(SHARES @ (1 - (1 - policy) ** k))


if __name__ == "__main__":
    for name, policy in {
        "policy gradient": train("policy_gradient"),
        "RSPO for Pass@4": train("rspo_pass_at_k", k=4),
    }.items():
        values = ", ".join(f"Pass@{k} = {pass_at_k(policy, k):.2f}" for k in (1, 4))
        print(f"{name:26} {values}")
