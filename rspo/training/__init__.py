"""Training of policies. Start reading at `local`, the algorithm of the paper.

train           trains a cell with the engine of the config
cell            the life of a training cell, the same for every engine
local_engine    the engine in one process, which runs `local`
verl            the engine on GPUs
pretraining     base policies
"""
