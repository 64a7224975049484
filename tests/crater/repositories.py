"""The repositories that `lint` is run over, with the commit at which its findings were judged."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Repository:
    """A public repository at one commit."""

    name: str
    commit: str


REPOSITORIES = (
    Repository("EleutherAI/gpt-neox", "ea7aefd8f8e183256992d9fede4d7c71a46d67a5"),
    Repository("Lightning-AI/pytorch-lightning", "7f0c3436cd3f6ad3753125672024fc415cbcb414"),
    Repository("NVIDIA/NeMo", "8cfedd7203462cb251a914e700e5605444277561"),
    Repository("facebookresearch/DiT", "ed81ce2229091fd4ecc9a223645f95cf379d582b"),
    Repository("facebookresearch/barlowtwins", "8e8d284ca0bc02f88b92328e53f9b901e86b4a3c"),
    Repository("facebookresearch/detr", "29901c51d7fe8712168b8d0d64351170bc0f83e0"),
    Repository("facebookresearch/dino", "7c446df5b9f45747937fb0d72314eb9f7b66930a"),
    Repository("facebookresearch/fairseq", "3d262bb25690e4eb2e7d3c1309b1e9c406ca4b99"),
    Repository("facebookresearch/mae", "efb2a8062c206524e35e47d04501ed4f544c0ae8"),
    Repository("facebookresearch/moco", "f7364915bc4e9161427d7c6bb4f454fa0f171337"),
    Repository("huggingface/accelerate", "16cb6eb80dd9aa8b4df1a63ef57863e455d53b83"),
    Repository("huggingface/pytorch-image-models", "aa4b5850c1543fa488abf260f18390eda46cf85d"),
    Repository("jingyaogong/minimind", "d65ef2c00ebc6082f9df11541e1b191655eddb00"),
    Repository("karpathy/llm.c", "f1e2ace651495b74ae22d45d1723443fd00ecd3a"),
    Repository("karpathy/nanoGPT", "3adf61e154c3fe3fca428ad6bc3818b27a3b8291"),
    Repository("open-mmlab/mmengine", "254342938d9bde1775c39ea7d5181c5d294026c4"),
    Repository("openai/guided-diffusion", "22e0df8183507e13a7813f8d38d51b072ca1e67c"),
    Repository("pytorch/examples", "77f55b912142e11fcfdf5b530231fb9c52f181e8"),
    Repository("pytorch/ignite", "de08e799cfb55a6cf4aa778575d6bad725385453"),
    Repository("pytorch/torchtitan", "b5bcd76c66d0acb1a08b176d9639425bc55e0b2a"),
    Repository("speechbrain/speechbrain", "9c826ef3937bac885c8a6ca86c6889a30f256fb5"),
    Repository("ultralytics/yolov5", "5081342f04fb287fc2e5f2b5a4e06752b7937b1c"),
)
