import pytest

from loopai_trainer.rules.tuning import disagreements, tune

LORA = {"finetuning_type": "lora", "learning_rate": 1e-4, "num_train_epochs": 3.0, "lora_rank": 4}
FULL = {"finetuning_type": "full", "learning_rate": 1e-4, "num_train_epochs": 3.0}

CODE = {"lora_rank": 16, "lora_alpha": 32, "lora_target": "all"}
CHAT = {"lora_rank": 8, "lora_alpha": 16, "lora_target": "q_proj,v_proj"}


@pytest.mark.parametrize(
    ("words", "template", "expected"),
    [
        ("数学 推理 复杂 困难", FULL, {"learning_rate": 1e-5}),
        ("对话 聊天 简单", FULL, {"learning_rate": 5e-5}),
        ("微调 适应 few-shot", FULL, {"num_train_epochs": 1.0}),
        ("从头 完整 全面", FULL, {"num_train_epochs": 5.0}),
        ("代码 编程 code", LORA, CODE),
        ("对话 聊天 chat", LORA, {"learning_rate": 5e-5, **CHAT}),
        ("math maths mathematics mathematical reasoning complex difficult", FULL, {"learning_rate": 1e-5}),
        ("chat chats chatbot chatbots dialog dialogue dialogues conversation conversational simple", FULL, {"learning_rate": 5e-5}),
        ("fine-tune fine-tuning fine-tuned finetune finetuning FINE-TUNE adapt adaptation Few-shot", FULL, {"num_train_epochs": 1.0}),
        ("complete comprehensive", FULL, {"num_train_epochs": 5.0}),
        ("coding codes programming Code", LORA, CODE),
        ("dialogue conversation Chatbot", LORA, {"learning_rate": 5e-5, **CHAT}),
    ],
)  # fmt: skip
def test_every_word_of_the_specification_and_its_translation(words, template, expected):
    for word in words.split():
        tuned, changes, notes = tune(template, f"训练{word}模型")
        assert {key: value for key, value in tuned.items() if template.get(key) != value} == expected, word
        assert {change.key: (change.before, change.after) for change in changes} == {
            key: (template.get(key), value) for key, value in expected.items()
        }
        assert {change.reason for change in changes} == {f"the task description says '{word}'"}
        assert notes == []


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("train it from scratch", {"num_train_epochs": 5.0}),
        ("a few shot learner", {"num_train_epochs": 1.0}),
        ("写code的模型", CODE),
        ("decode aftermath, simplest adaptive encoder", {}),
        ("few_shot code_review chat2", {}),
        ("something else", {}),
        ("", {}),
    ],
)
def test_words_stand_alone_or_between_chinese_ones(description, expected):
    assert {change.key: change.after for change in tune(LORA, description)[1]} == expected


@pytest.mark.parametrize(
    ("description", "template", "key", "value", "said"),
    [
        (
            "简单的数学",
            FULL,
            "learning_rate",
            1e-5,
            "'数学' ranks before that of '简单': learning_rate 1e-05 (not 5e-05)",
        ),
        (
            "chat about complex things",
            FULL,
            "learning_rate",
            1e-5,
            "'complex' ranks before that of 'chat': learning_rate 1e-05 (not 5e-05)",
        ),
        (
            "全面微调",
            FULL,
            "num_train_epochs",
            1.0,
            "'微调' ranks before that of '全面': num_train_epochs 1.0 (not 5.0)",
        ),
        (
            "聊天时写代码",
            LORA,
            "lora_rank",
            16,
            "'代码' ranks before that of '聊天': lora_rank 16 (not 8), lora_alpha 32 (not 16), lora_target all (not q_proj,v_proj)",
        ),
    ],
)
def test_of_several_rules_the_one_written_first_counts_and_the_other_is_told(description, template, key, value, said):
    tuned, changes, notes = tune(template, description)
    assert tuned[key] == value
    assert next(change for change in changes if change.key == key).after == value
    assert notes == [f"the rule of {said}"]
    assert [problem.message for problem in disagreements(notes)] == notes
    assert {problem.severity for problem in disagreements(notes)} == {"warning"}


def test_the_first_rule_counts_also_where_it_changes_nothing():
    template = {**FULL, "learning_rate": 1e-5}
    tuned, changes, notes = tune(template, "简单的数学")
    assert (tuned, changes, len(notes)) == (template, [], 1)


def test_lora_rules_leave_full_fine_tuning_alone():
    assert tune(FULL, "代码") == (FULL, [], [])


def test_a_template_that_says_nothing_trains_lora():
    assert tune({}, "代码")[0] == CODE


@pytest.mark.parametrize(("max_steps", "changed"), [(10, False), (0, True), (-1, True), (None, True), ("10", True)])
def test_epochs_are_not_set_where_max_steps_decides(max_steps, changed):
    template = {**FULL, "max_steps": max_steps}
    assert (tune(template, "微调")[0] != template) is changed


def test_what_a_person_has_given_no_rule_changes():
    tuned, changes, notes = tune(FULL, "简单的数学, 微调", {"learning_rate"})
    assert tuned == {**FULL, "num_train_epochs": 1.0}
    assert [change.key for change in changes] == ["num_train_epochs"]
    assert notes == []
