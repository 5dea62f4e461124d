import pytest

from loopai_trainer.rules.tuning import tune

LORA = {"finetuning_type": "lora", "learning_rate": 1e-4, "num_train_epochs": 3.0, "lora_rank": 4}
FULL = {"finetuning_type": "full", "learning_rate": 1e-4, "num_train_epochs": 3.0}


@pytest.mark.parametrize(
    ("description", "template", "expected"),
    [
        ("数学推理", FULL, {"learning_rate": 1e-5}),
        ("a maths tutor", FULL, {"learning_rate": 1e-5}),
        ("SFT a chat assistant", FULL, {"learning_rate": 5e-5}),
        ("few-shot 适应", FULL, {"num_train_epochs": 1.0}),
        ("从头训练", FULL, {"num_train_epochs": 5.0}),
        ("编程助手", LORA, {"lora_rank": 16, "lora_alpha": 32, "lora_target": "all"}),
        ("聊天", LORA, {"learning_rate": 5e-5, "lora_rank": 8, "lora_alpha": 16, "lora_target": "q_proj,v_proj"}),
        ("decode aftermath", LORA, {}),
        ("something else", FULL, {}),
    ],
)
def test_rules_change_what_the_description_says(description, template, expected):
    tuned, changes, notes = tune(template, description)
    assert {key: value for key, value in tuned.items() if template.get(key) != value} == expected
    assert {change.key: change.after for change in changes} == expected
    assert all("the task description says" in change.reason for change in changes)
    assert notes == []


def test_rules_that_disagree_cancel_each_other_and_say_so():
    tuned, changes, notes = tune(FULL, "简单的数学")
    assert tuned == FULL
    assert changes == []
    assert len(notes) == 1
    assert "learning_rate" in notes[0]
    assert "'数学'" in notes[0]
    assert "'简单'" in notes[0]


def test_lora_rules_leave_full_fine_tuning_alone():
    assert tune(FULL, "代码")[0] == FULL


def test_epochs_are_not_set_where_max_steps_decides():
    assert tune({**FULL, "max_steps": 10}, "微调")[0] == {**FULL, "max_steps": 10}
