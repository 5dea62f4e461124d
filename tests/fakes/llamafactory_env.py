"""An environment folder that looks like one with LLaMA-Factory: metadata and argument classes, no working interpreter."""

from collections.abc import Mapping
from pathlib import Path

from loopai_trainer.host.environments import read_versions, resolve
from loopai_trainer.records import Versions

DISTRIBUTIONS = {"llamafactory": "0.9.5", "transformers": "5.6.0", "torch": "2.14.1", "matplotlib": "3.11.2"}

MODEL_ARGS = """
@dataclass
class BaseModelArguments:
    model_name_or_path: str | None = field(default=None)
    adapter_name_or_path: str | None = field(default=None)
    flash_attn: AttentionFunction = field(default=AttentionFunction.AUTO)
    trust_remote_code: bool = field(default=False)


@dataclass
class ModelArguments(BaseModelArguments):
    quantization_bit: int | None = field(default=None)
    compute_dtype: torch.dtype | None = field(default=None, init=False)
    device_map: "str | dict[str, Any] | None" = field(default=None, init=False)
    LIMIT: ClassVar[int] = 3

    def __post_init__(self):
        pass
"""
DATA_ARGS = """
@dataclass
class DataArguments:
    template: Optional[str] = field(default=None)
    dataset: str | None = field(default=None)
    eval_dataset: str | None = field(default=None)
    dataset_dir: str = field(default="data")
    cutoff_len: int = field(default=2048)
    val_size: float = field(default=0.0)
    max_samples: Optional[int] = field(default=None)
    packing: bool | None = field(default=None)
    streaming: bool = field(default=False)
    mask_history: bool = field(default=False)
    tokenized_path: str | None = field(default=None)
    mix_strategy: Literal["concat", "interleave_under"] = field(default="concat")
    image_max_pixels: int = field(default=768 * 768)

    def __post_init__(self):
        self.dataset = split_arg(self.dataset)
        self.eval_dataset = split_arg(self.eval_dataset)
"""
FINETUNING_ARGS = """
@dataclass
class LoraArguments:
    lora_rank: int = field(default=8)
    lora_alpha: int | None = field(default=None)
    lora_dropout: float = field(default=0.0)
    lora_target: str = field(default="all")
    additional_target: str | None = field(default=None)


@dataclass
class FinetuningArguments(LoraArguments):
    stage: Literal["pt", "sft", "dpo"] = field(default="sft")
    finetuning_type: Literal["lora", "oft", "freeze", "full"] = field(default="lora")
    pure_bf16: bool = field(default=False)
    plot_loss: bool = field(default=False)

    def __post_init__(self):
        self.lora_target: list[str] = split_arg(self.lora_target)
"""
GENERATING_ARGS = """
@dataclass
class GeneratingArguments:
    top_p: float = field(default=0.7)
"""
OWN_TRAINING_ARGS = """
if is_env_enabled("USE_MCA"):
    BaseTrainingArguments = McaSeq2SeqTrainingArguments
else:
    BaseTrainingArguments = Seq2SeqTrainingArguments


@dataclass
class TrainingArguments(BaseTrainingArguments):
    overwrite_output_dir: bool = field(default=False)
"""
THEIR_TRAINING_ARGS = """
@dataclass
class TrainingArguments:
    framework = "pt"
    output_dir: str | None = field(default=None)
    per_device_train_batch_size: int = field(default=8)
    per_device_eval_batch_size: int = field(default=8)
    gradient_accumulation_steps: int = field(default=1)
    learning_rate: float = field(default=5e-5)
    num_train_epochs: float = field(default=3.0)
    max_steps: int = field(default=-1)
    lr_scheduler_type: SchedulerType | str = field(default="linear")
    warmup_ratio: float | None = field(default=None)
    warmup_steps: float = field(default=0)
    bf16: bool = field(default=False)
    fp16: bool = field(default=False)
    use_cpu: bool = field(default=False)
    logging_steps: float = field(default=500)
    logging_nan_inf_filter: bool = field(default=True)
    disable_tqdm: bool | None = field(default=None)
    report_to: None | str | list[str] = field(default="none")
    eval_strategy: IntervalStrategy | str = field(default="no")
    eval_steps: float | None = field(default=None)
    save_strategy: IntervalStrategy | str = field(default="steps")
    save_steps: float = field(default=500)
    save_total_limit: int | None = field(default=None)
    save_only_model: bool = field(default=False)
    load_best_model_at_end: bool = field(default=False)
    metric_for_best_model: str | None = field(default=None)
    greater_is_better: bool | None = field(default=None)
    push_to_hub: bool = field(default=False)
    seed: int = field(default=42)
    ddp_timeout: int = field(default=1800)
    fsdp: list[FSDPOption] | str | None = field(default=None)
    deepspeed: dict | str | None = field(default=None)
    do_train: bool = field(default=False)
    resume_from_checkpoint: str | None = field(default=None)
"""
SEQ2SEQ = """
@dataclass
@add_start_docstrings(TrainingArguments.__doc__)
class Seq2SeqTrainingArguments(TrainingArguments):
    predict_with_generate: bool = field(default=False)
"""
TRAINER_UTILS = """
class IntervalStrategy(ExplicitEnum):
    NO = "no"
    STEPS = "steps"
    EPOCH = "epoch"


class SchedulerType(ExplicitEnum):
    LINEAR = "linear"
    COSINE = "cosine"
    CONSTANT_WITH_WARMUP = "constant_with_warmup"
"""
CONSTANTS = """
class AttentionFunction(StrEnum):
    AUTO = "auto"
    FA2 = "fa2"
"""
TEMPLATE_PY = r"""
class Template:
    pass


register_template(
    name="qwen",
    format_user=StringFormatter(slots=["<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n"]),
    format_assistant=StringFormatter(slots=["{{content}}<|im_end|>\n"]),
    format_system=StringFormatter(slots=["<|im_start|>system\n{{content}}<|im_end|>\n"]),
    format_function=FunctionFormatter(slots=["{{content}}<|im_end|>\n"], tool_format="qwen"),
    format_tools=ToolFormatter(tool_format="qwen"),
    default_system="Be brief.",
    stop_words=["<|im_end|>"],
    replace_eos=True,
)

register_template(
    name="qwen2_vl",
    format_user=StringFormatter(slots=["<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n"]),
    format_assistant=StringFormatter(slots=["{{content}}<|im_end|>\n"]),
    stop_words=["<|im_end|>"],
    replace_eos=True,
    mm_plugin=get_mm_plugin(name="qwen2_vl", image_token="<|image_pad|>"),
)

register_template(
    name="qwen3",
    format_user=StringFormatter(slots=["<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n"]),
    format_assistant=StringFormatter(slots=["{{content}}<|im_end|>\n"]),
    stop_words=["<|im_end|>"],
    replace_eos=True,
    template_class=ReasoningTemplate,
)

register_template(
    name="llama3",
    format_user=StringFormatter(
        slots=[
            (
                "<|start_header_id|>user<|end_header_id|>\n\n{{content}}<|eot_id|>"
                "<|start_header_id|>assistant<|end_header_id|>\n\n"
            )
        ]
    ),
    format_assistant=StringFormatter(slots=["{{content}}<|eot_id|>"]),
    format_prefix=EmptyFormatter(slots=[{"bos_token"}]),
    stop_words=["<|eot_id|>", "<|eom_id|>"],
    replace_eos=True,
)

register_template(
    name="llama2",
    format_user=StringFormatter(slots=[{"bos_token"}, "[INST] {{content}} [/INST]"]),
    format_system=StringFormatter(slots=["<<SYS>>\n{{content}}\n<</SYS>>\n\n"]),
    template_class=Llama2Template,
)

register_template(
    name="chatglm3",
    format_user=StringFormatter(slots=[{"token": "<|user|>"}, "\n", "{{content}}", {"token": "<|assistant|>"}]),
    format_prefix=EmptyFormatter(slots=[{"token": "[gMASK]"}, {"token": "sop"}]),
    format_tools=StringFormatter(slots=["<tools>{{content}}"]),
    efficient_eos=True,
)

register_template(name="default", format_user=StringFormatter(slots=["Human: {{content}}", {"eos_token"}, "\nAssistant:"]))
register_template(name="phi_small", format_prefix=EmptyFormatter(slots=[{"<|endoftext|>"}]))
register_template(name="odd", format_user=StringFormatter(slots=[7]))
register_template(name="computed", format_user=made())
register_template(name="alien", template_class=TheirTemplate)
register_template(name=made())
register_template(name="positional", format_user=StringFormatter(["<u>{{content}}"]))
"""
TOOL_UTILS = r"""
QWEN_TOOL_PROMPT = (
    "\n# Tools{tool_text}"
    "\n{{end}}"
)
DEFAULT_TOOL_PROMPT = "You have:\n{tool_text}Use one of [{tool_names}]\n"
LLAMA3_TOOL_PROMPT = "Today Date: {date}\n\n{tool_text}"
NUMBER = 3
MADE = str(3)
TOOLS = {"default": DefaultToolUtils(), "qwen": QwenToolUtils()}
"""
SOURCES = {
    "llamafactory/__init__.py": "",
    "llamafactory/extras/constants.py": CONSTANTS,
    "llamafactory/hparams/model_args.py": MODEL_ARGS,
    "llamafactory/hparams/data_args.py": DATA_ARGS,
    "llamafactory/hparams/finetuning_args.py": FINETUNING_ARGS,
    "llamafactory/hparams/generating_args.py": GENERATING_ARGS,
    "llamafactory/hparams/training_args.py": OWN_TRAINING_ARGS,
    "llamafactory/data/template.py": TEMPLATE_PY,
    "llamafactory/data/tool_utils.py": TOOL_UTILS,
    "transformers/training_args.py": THEIR_TRAINING_ARGS,
    "transformers/training_args_seq2seq.py": SEQ2SEQ,
    "transformers/trainer_utils.py": TRAINER_UTILS,
}


def write_program(path: Path) -> None:
    """An executable that does nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)


def make_environment(root: Path, distributions: Mapping[str, str] | None = None) -> Path:
    """The folder at `root`, with these distributions (name -> version) noted as installed."""
    write_program(root / "bin" / "python")
    write_program(root / "bin" / "llamafactory-cli")
    site = root / "lib" / "python3.11" / "site-packages"
    for name, source in SOURCES.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(source)
    for name, version in (DISTRIBUTIONS if distributions is None else distributions).items():
        add_distribution(site, name, version)
    (root / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.7\n")
    return root


def add_distribution(site: Path, name: str, version: str) -> Path:
    """Its dist-info folder."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText: no header\n")
    return folder


def versions_of(root: Path) -> Versions:
    """What the environment at `root` holds."""
    return read_versions(resolve(str(root), "llamafactory", {}), "llamafactory")
