#!/usr/bin/env bash
# RSPO for Pass@4 with 16 responses to each prompt: Qwen2.5-Math-1.5B on MATH, one node of 8 GPUs.
#   bash run_rspo.sh DATA [key=value ...]      DATA has train.parquet and test.parquet (prepare_data.py)
set -euo pipefail

DATA=$1
shift
RESPONSE_LENGTH=${RESPONSE_LENGTH:-3072}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Every process of verl imports the estimator.
export PYTHONPATH="$HERE${PYTHONPATH:+:$PYTHONPATH}"
export VERL_USE_EXTERNAL_MODULES="${VERL_USE_EXTERNAL_MODULES:+$VERL_USE_EXTERNAL_MODULES,}rspo_advantage"

# seq-mean-token-sum-norm divides by a constant: a mean over tokens would favour short responses, and
# the gradient would not be that of Pass@k. Weights are those of the paper, without KL and entropy terms.
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=rspo \
    +algorithm.rspo_k=4 \
    algorithm.use_kl_in_reward=false \
    data.train_files="$DATA/train.parquet" \
    data.val_files="$DATA/test.parquet" \
    data.train_batch_size=128 \
    data.max_prompt_length=1024 \
    data.max_response_length="$RESPONSE_LENGTH" \
    data.filter_overlong_prompts=true \
    actor_rollout_ref.model.path=Qwen/Qwen2.5-Math-1.5B \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=16 \
    actor_rollout_ref.rollout.temperature=1.0 \
    actor_rollout_ref.rollout.top_p=1.0 \
    actor_rollout_ref.actor.optim.lr=3e-6 \
    actor_rollout_ref.actor.ppo_mini_batch_size=128 \
    actor_rollout_ref.actor.use_dynamic_bsz=true \
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384 \
    actor_rollout_ref.actor.use_kl_loss=false \
    actor_rollout_ref.actor.entropy_coeff=0 \
    actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm \
    actor_rollout_ref.actor.loss_scale_factor="$RESPONSE_LENGTH" \
    trainer.project_name=rspo \
    trainer.experiment_name=qwen2.5-math-1.5b-pass-at-4 \
    trainer.n_gpus_per_node=8 \
    trainer.total_epochs=2 \
    trainer.test_freq=20 \
    trainer.save_freq=20 \
    "$@"
