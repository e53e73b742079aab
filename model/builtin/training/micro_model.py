"""The Llama architecture in plain torch, its parameters named as Hugging Face names them, and its start weights.

The start weights hold the circuit that recall needs (an induction head that matches on the key and on the previous
token); a model of this size finds it by itself only after far more training than it gets here.
"""
import dataclasses
import math

import torch
import torch.nn.functional as F


QUERY_BLOCK = 128  # queries whose attention is computed together


@dataclasses.dataclass(frozen=True)
class Config:
    vocab_size: int = 2048
    hidden_size: int = 256
    intermediate_size: int = 640
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    rms_norm_eps: float = 1e-5
    rope_theta: float = 1e6
    max_position_embeddings: int = 2048


class RmsNorm(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(config.hidden_size))
        self.eps = config.rms_norm_eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def linear(inputs, outputs):
    return torch.nn.Linear(inputs, outputs, bias=False)


def rotate(x, cos, sin):
    """Rotary position as Hugging Face has it: dimension d turns with dimension d + head_dim / 2."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Attention(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.q_proj = linear(config.hidden_size, self.heads * self.head_dim)
        self.k_proj = linear(config.hidden_size, self.kv_heads * self.head_dim)
        self.v_proj = linear(config.hidden_size, self.kv_heads * self.head_dim)
        self.o_proj = linear(self.heads * self.head_dim, config.hidden_size)

    def forward(self, x, rotary, past, kv_filter):
        batch, length, _ = x.shape
        q = rotate(self.q_proj(x).view(batch, length, self.heads, -1).transpose(1, 2), *rotary)
        k = rotate(self.k_proj(x).view(batch, length, self.kv_heads, -1).transpose(1, 2), *rotary)
        v = self.v_proj(x).view(batch, length, self.kv_heads, -1).transpose(1, 2)
        if kv_filter is not None:
            k, v = kv_filter(k), kv_filter(v)
        if past is not None:
            k = torch.cat((past[0].expand(batch, -1, -1, -1), k), 2)
            v = torch.cat((past[1].expand(batch, -1, -1, -1), v), 2)
        mixed = attend(q * self.head_dim**-0.5, k, v)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1)), (k, v)


def attend(q, k, v):
    """Causal attention of q (batch, heads, length, head_dim), the last positions of k and v (batch, kv heads, ...).
    Goes over blocks of queries, so that what a block may not see is not computed."""
    batch, heads, length, head_dim = q.shape
    kv_heads, before = k.shape[1], k.shape[2] - length
    # The query heads of one KV head lie side by side: (batch, kv head, query heads x length, head_dim).
    q = q.view(batch, kv_heads, heads // kv_heads, length, head_dim)
    mask = torch.full((QUERY_BLOCK, QUERY_BLOCK), -math.inf).triu(1)
    mixed = []
    for start in range(0, length, QUERY_BLOCK):
        end = min(start + QUERY_BLOCK, length)
        block = q[:, :, :, start:end].reshape(batch, kv_heads, -1, head_dim)
        scores = torch.matmul(block, k[:, :, : before + end].transpose(2, 3))
        scores = scores.view(batch, kv_heads, -1, end - start, before + end)
        scores[..., before + start :] += mask[: end - start, : end - start]
        weights = torch.softmax(scores, -1).view(batch, kv_heads, -1, before + end)
        mixed.append(torch.matmul(weights, v[:, :, : before + end]).view(batch, heads, end - start, head_dim))
    return torch.cat(mixed, 2)


class Mlp(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = linear(config.hidden_size, config.intermediate_size)
        self.up_proj = linear(config.hidden_size, config.intermediate_size)
        self.down_proj = linear(config.intermediate_size, config.hidden_size)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm, self.self_attn = RmsNorm(config), Attention(config)
        self.post_attention_layernorm, self.mlp = RmsNorm(config), Mlp(config)

    def forward(self, x, rotary, past, kv_filter):
        attended, present = self.self_attn(self.input_layernorm(x), rotary, past, kv_filter)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), present


class MicroModel(torch.nn.Module):
    """Tied embeddings. Parameter names, after the prefix `model.`, are those of a Hugging Face Llama."""

    def __init__(self, config=Config()):
        super().__init__()
        self.config = config
        self.embed_tokens = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = torch.nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = RmsNorm(config)
        angles = torch.outer(torch.arange(config.max_position_embeddings).float(), frequencies(config)).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def hidden(self, ids, past=None, kv_filter=None):
        """The normed last hidden states of ids (batch, length) and every layer's (k, v). `past`: what an earlier call
        returned, of batch 1 or of this batch. `kv_filter`: applied to K and V before they are used or kept."""
        start = 0 if past is None else past[0][0].shape[2]
        end = start + ids.shape[1]
        rotary = self.cos[start:end], self.sin[start:end]
        x, presents = self.embed_tokens(ids), []
        for index, layer in enumerate(self.layers):
            x, present = layer(x, rotary, None if past is None else past[index], kv_filter)
            presents.append(present)
        return self.norm(x), presents

    def logits(self, hidden):
        return F.linear(hidden, self.embed_tokens.weight)


def frequencies(config):
    return config.rope_theta ** (-torch.arange(0, config.head_dim, 2).float() / config.head_dim)


# Where the start weights keep what, in the 256 dimensions of the residual stream.
IDENTITY = slice(0, 128)  # which token this is
SHARED = 128  # the same in every token: constant queries and keys read it
IS_ADJECTIVE, IS_NOUN = 129, 130
# The last norm hides these from the tied output, or else learning how frequent each token is would destroy them.
INPUT_ONLY = slice(128, 131)
PREVIOUS, NOUN, ADJECTIVE = slice(132, 164), slice(164, 196), slice(196, 228)  # codes of the previous token and of the key
BEFORE = slice(228, 256)  # code of the token before the previous one

LOCAL_PAIRS = 12  # rotary pairs 0 to 11 turn fast enough to tell neighbouring positions apart
SLOW_PAIRS = range(16, 32)  # of a period above 5,000 tokens: blind to position over the whole context


def at_offset(config, offset, first_pair=0):
    """A query that, against a key of (1, 0) in every local pair, scores highest `offset` tokens back: sharply with the
    fastest pairs, over a wider range from a later first_pair on."""
    pairs = torch.arange(first_pair, LOCAL_PAIRS)
    angle = frequencies(config)[pairs] * offset
    query = torch.zeros(config.head_dim)
    query[pairs], query[32 + pairs] = angle.cos(), -angle.sin()
    return query


def orthogonal(rows, columns, generator):
    return torch.linalg.qr(torch.randn(max(rows, columns), min(rows, columns), generator=generator))[0].T[:rows, :columns]


@torch.no_grad()
def start_weights(model, adjective_ids, noun_ids, seed):
    config, generator = model.config, torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            deep = name.endswith(("o_proj.weight", "down_proj.weight"))
            parameter.normal_(0, 0.003 if deep else 0.05, generator=generator)
    embedding = model.embed_tokens.weight
    embedding.mul_(0.2)
    embedding[:, IDENTITY] = torch.randn(config.vocab_size, 128, generator=generator) * (0.8 / 128**0.5)
    embedding[:, SHARED] = 0.5
    for ids, flag in ((adjective_ids, IS_ADJECTIVE), (noun_ids, IS_NOUN)):
        embedding[ids, IDENTITY] *= 0.78  # all rows keep about one norm, so that SHARED weighs the same in each
        embedding[ids, flag] = 0.5
    model.norm.weight[INPUT_ONLY] = 0
    code = orthogonal(32, 64, generator)  # a token's code in 32 dimensions, from half of its identity
    start_gather(model.layers[0].self_attn, code)
    start_match(model.layers[-1].self_attn, code, generator)


def start_gather(attention, code):
    """Layer 0: heads 0 and 1 bring the codes of the last two tokens, head 2 that of the key's noun, head 3 that of its
    adjective: the nearest ones, wherever in the value the query stands."""
    config_like = Config()
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj):
        projection.weight.mul_(0.03)
    q, k, v, o = (p.weight for p in (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj))
    for kv_head in (0, 1):
        k[64 * kv_head : 64 * kv_head + LOCAL_PAIRS, SHARED] = 1.0
        v[64 * kv_head : 64 * kv_head + 64, 0:64] = 0.1 * torch.eye(64)
    q[0:64, SHARED], q[64:128, SHARED] = 7.0 * at_offset(config_like, 1), 7.0 * at_offset(config_like, 2)
    k[64 + 20, IS_ADJECTIVE] = k[64 + 24, IS_NOUN] = 1.0
    for head, offset, flag_pair, slot in ((2, 3.5, 24, NOUN), (3, 4.5, 20, ADJECTIVE)):
        q[64 * head : 64 * head + 64, SHARED] = 1.0 * at_offset(config_like, offset, first_pair=3)
        q[64 * head + flag_pair, SHARED] = 5.0
        o[slot, 64 * head : 64 * head + 64] = code
    o[PREVIOUS, 0:64], o[BEFORE, 64:128] = code, code[:28]


def start_match(attention, code, generator):
    """Last layer: heads 0 and 2 go where the key and the last two tokens equal the query's key and its own last two, and
    copy the token that they find there; heads 1 and 3 look at their own position and take most of the current token away."""
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj):
        projection.weight.mul_(0.03)
    q, k, v, o = (p.weight for p in (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj))
    slow = torch.tensor([*SLOW_PAIRS, *(32 + pair for pair in SLOW_PAIRS)])
    for kv_head in (0, 1):
        rows, match, own = 64 * kv_head, 128 * kv_head, 128 * kv_head + 64
        for slot in (NOUN, ADJECTIVE):
            turn = 1.3 * orthogonal(32, 32, generator)
            q[match + slow, slot] = k[rows + slow, slot] = turn
        turn = 1.3 * orthogonal(32, 32, generator)
        q[match + slow, 0:64], k[rows + slow, PREVIOUS] = 2.0 * turn @ code, turn
        turn = 1.1 * orthogonal(32, 32, generator)[:, :28]
        q[match + slow, PREVIOUS.start : PREVIOUS.start + 28], k[rows + slow, BEFORE] = turn, turn
        k[rows : rows + LOCAL_PAIRS, SHARED] = 1.0
        q[own : own + 64, SHARED] = 10.0 * at_offset(Config(), 0)
        identity = slice(64 * kv_head, 64 * kv_head + 64)
        v[rows : rows + 64, identity] = 0.3 * torch.eye(64)
        o[identity, match : match + 64] = torch.eye(64)
        o[identity, own : own + 64] = -0.3 * torch.eye(64)
