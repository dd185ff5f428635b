"""Networks that people have, small and with random weights: torchvision, timm, transformers."""

import re
from importlib.util import find_spec
from pathlib import Path

import torch

PACKAGES = ("torchvision", "timm", "transformers")


def without_kernels():
    """Declares torchvision's own operations if its library does not fit this PyTorch: none of the
    networks calls them, but its import does."""
    found = find_spec("torchvision")
    if found is None or found.origin is None:
        return
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        text = Path(found.origin).with_name("_meta_registrations.py").read_text()
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in set(re.findall(r'register_meta\("(\w+)"\)|torchvision::(\w+)', text)):
            library.define(f"{''.join(name)}(Tensor x) -> Tensor")
        KEPT.append(library)


KEPT = []
"""Libraries of declarations, which end with the object."""


class First(torch.nn.Module):
    """The first result of a network, without the caches of a decoder."""

    def __init__(self, inner, **fixed):
        super().__init__()
        self.inner, self.fixed = inner, fixed

    def forward(self, *inputs):
        found = self.inner(*inputs, **self.fixed)
        return found[0] if isinstance(found, (tuple, list)) else next(iter(found.values()))


class Twice(First):
    """An encoder and a decoder, which read a text each."""

    def forward(self, one, other):
        return self.inner(input_ids=one, decoder_input_ids=other, **self.fixed)[0]


def torchvision_model(name, size=64, **words):
    def make():
        without_kernels()
        import torchvision

        return torchvision.models.get_model(name, weights=None, **words), (image(size),)

    return make


def timm_model(name, size=None, **words):
    def make():
        without_kernels()
        import timm

        model = timm.create_model(name, pretrained=False, **words)
        return model, (image(size or model.pretrained_cfg["input_size"][-1]),)

    return make


def image(size):
    return torch.randn(1, 3, size, size)


def text_model(config, name, masked=False, wrapper=First, **words):
    """Of transformers; `masked`: the second of two texts is shorter."""

    def make():
        without_kernels()
        import transformers

        made = getattr(transformers, name)(getattr(transformers, config)(**words))
        decodes = "CausalLM" in name or "LMHead" in name or wrapper is Twice
        fixed = {"use_cache": False} if decodes else {}
        ids = torch.randint(3, words.get("vocab_size", 100), (2, 16))
        mask = torch.ones(2, 16, dtype=torch.int64)
        mask[1, 10:] = 0
        inputs = (ids, mask) if masked else (ids, ids.clone()) if wrapper is Twice else (ids,)
        return wrapper(made, return_dict=True, **fixed), inputs

    return make


def patch_model(config, name, **words):
    def make():
        without_kernels()
        import transformers

        made = getattr(transformers, name)(getattr(transformers, config)(**words))
        return First(made, return_dict=True), (torch.randn(2, 3, 32, 32),)

    return make


WIDTH = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL = {**WIDTH, "intermediate_size": 128, "vocab_size": 100}
GROUPED = {**SMALL, "num_key_value_heads": 2}
PATCHES = {**WIDTH, "intermediate_size": 128, "image_size": 32, "patch_size": 8}
GPT = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100}
T5 = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 100}
BART = {
    **{f"{half}_layers": 2 for half in ("encoder", "decoder")},
    **{f"{half}_attention_heads": 4 for half in ("encoder", "decoder")},
    **{f"{half}_ffn_dim": 128 for half in ("encoder", "decoder")},
    "d_model": 64,
    "vocab_size": 100,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
PLAIN = {"init_weights": False, "aux_logits": False}

CONVOLUTIONS = {
    "resnet18": torchvision_model("resnet18"),
    "resnext50": torchvision_model("resnext50_32x4d"),
    "vgg11_bn": torchvision_model("vgg11_bn", 224),
    "alexnet": torchvision_model("alexnet", 224),
    "mobilenet_v2": torchvision_model("mobilenet_v2"),
    "mobilenet_v3": torchvision_model("mobilenet_v3_small"),
    "densenet121": torchvision_model("densenet121"),
    "squeezenet": torchvision_model("squeezenet1_1"),
    "shufflenet": torchvision_model("shufflenet_v2_x0_5"),
    "efficientnet": torchvision_model("efficientnet_b0"),
    "regnet": torchvision_model("regnet_y_400mf"),
    "mnasnet": torchvision_model("mnasnet0_5"),
    "googlenet": torchvision_model("googlenet", **PLAIN),
    "inception": torchvision_model("inception_v3", 96, **PLAIN),
    "convnext": torchvision_model("convnext_tiny"),
    "resnetv2": timm_model("resnetv2_50", 64),
    "nf_resnet": timm_model("nf_resnet50", 64),
    "hrnet": timm_model("hrnet_w18_small", 64),
    "ghostnet": timm_model("ghostnet_100", 64),
    "repvgg": timm_model("repvgg_a0", 64),
}
TRANSFORMERS_OF_IMAGES = {
    "vit_b_16": torchvision_model("vit_b_16", 224),
    "swin_t": torchvision_model("swin_t"),
    "vit_tiny": timm_model("vit_tiny_patch16_224", depth=2),
    "deit": timm_model("deit_tiny_distilled_patch16_224", depth=2),
    "swin_tiny": timm_model("swin_tiny_patch4_window7_224", depths=(1, 1, 1, 1)),
    "xcit": timm_model("xcit_nano_12_p16_224", depth=2),
    "beit": timm_model("beit_base_patch16_224", depth=2),
    "mixer": timm_model("mixer_s32_224"),
    "poolformer": timm_model("poolformer_s12", 64),
    "maxvit": timm_model("maxvit_nano_rw_256"),
    "ViT": patch_model("ViTConfig", "ViTModel", **PATCHES),
    "CLIP image": patch_model("CLIPVisionConfig", "CLIPVisionModel", **PATCHES),
}
LANGUAGE = {
    "BERT": text_model("BertConfig", "BertModel", **SMALL),
    "BERT, padded": text_model("BertConfig", "BertModel", masked=True, **SMALL),
    "DistilBERT": text_model(
        "DistilBertConfig",
        "DistilBertModel",
        dim=64,
        n_layers=2,
        n_heads=4,
        hidden_dim=128,
        vocab_size=100,
    ),
    "RoBERTa": text_model("RobertaConfig", "RobertaModel", **SMALL),
    "ALBERT": text_model("AlbertConfig", "AlbertModel", embedding_size=32, **SMALL),
    "ELECTRA": text_model("ElectraConfig", "ElectraModel", **SMALL),
    "MPNet": text_model("MPNetConfig", "MPNetModel", **SMALL),
    "GPT-2": text_model("GPT2Config", "GPT2LMHeadModel", **GPT),
    "GPT-J": text_model("GPTJConfig", "GPTJForCausalLM", rotary_dim=8, **GPT),
    "GPT-NeoX": text_model("GPTNeoXConfig", "GPTNeoXForCausalLM", **SMALL),
    "OPT": text_model("OPTConfig", "OPTForCausalLM", ffn_dim=128, word_embed_proj_dim=64, **SMALL),
    "Llama": text_model("LlamaConfig", "LlamaForCausalLM", **GROUPED),
    "Llama, padded": text_model("LlamaConfig", "LlamaForCausalLM", masked=True, **GROUPED),
    "Qwen2": text_model("Qwen2Config", "Qwen2ForCausalLM", **GROUPED),
    "Qwen3": text_model("Qwen3Config", "Qwen3ForCausalLM", head_dim=16, **GROUPED),
    "Gemma": text_model("GemmaConfig", "GemmaForCausalLM", head_dim=16, **GROUPED),
    "Mistral": text_model("MistralConfig", "MistralForCausalLM", sliding_window=8, **GROUPED),
    "Phi": text_model("PhiConfig", "PhiForCausalLM", **SMALL),
    "BLOOM": text_model(
        "BloomConfig",
        "BloomForCausalLM",
        hidden_size=64,
        n_layer=2,
        n_head=4,
        vocab_size=100,
    ),
    "T5": text_model("T5Config", "T5Model", wrapper=Twice, decoder_start_token_id=0, **T5),
    "BART": text_model("BartConfig", "BartModel", wrapper=Twice, **BART),
    "CLIP text": text_model("CLIPTextConfig", "CLIPTextModel", **SMALL),
}
