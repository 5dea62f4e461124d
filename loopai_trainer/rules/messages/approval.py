"""The approval view: what a person reads before a plan is run, and after it was approved."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, tuple[str, str]] = {
    "hidden": (
        "it holds characters that a terminal does not show; they stand as \\x.. or \\u.... below",
        "文件中含有终端不显示的字符；下面以 \\x.. 或 \\u.... 的形式写出",
    ),
    "long_lines": (
        "a line that is wider than this page goes on below it, behind {mark}",
        "超出页面宽度的行在其下方继续，续行以 {mark} 开头",
    ),
    "one_warning_above": ("1 warning stands above the YAML.", "YAML 上方有 1 条警告。"),
    "warnings_above": ("{count} warnings stand above the YAML.", "YAML 上方有 {count} 条警告。"),
    "changed_since": (
        "Changed since round {round} ({version}), which was approved:",
        "与已审批的第 {round} 轮（{version}）相比，改动如下：",
    ),
    "round_gone": ("not known: that round's YAML is gone", "无法得知：那一轮的 YAML 已不存在"),
    "nothing_changed": ("nothing", "没有改动"),
    "before": ("from:", "原值："),
    "after": ("to:  ", "新值："),
    "taken_in": ("Taken in anew, in the YAML:", "重新读取并写入 YAML 的内容："),
    "prepared": ("prepared {version}; nothing was started", "已准备 {version}；没有启动任何训练"),
    "inspected": (
        "{path} is as it should be; nothing was started",
        "{path} 检查无误；没有启动任何训练",
    ),
    "approved": (
        "approved {version} (round {round}); it may be started once, until {until}",
        "已审批 {version}（第 {round} 轮）；可启动一次，截止 {until}",
    ),
    "read_above": ("Read the YAML above.", "请通读上面的 YAML。"),
    "person_approves": ("A person approves it:", "由人审批："),
    "run_exactly_this": ("To run exactly this, and nothing else:", "要运行的正是这份配置、别无其他，请执行："),
    "rows": ("{where}: {usable} rows accepted of {input}", "{where}：共 {input} 行，采用 {usable} 行"),
    "rows_left_out": (
        "{where}: {usable} rows accepted of {input}, {rejected} left out",
        "{where}：共 {input} 行，采用 {usable} 行，剔除 {rejected} 行",
    ),
    "ask": (
        "Type the first {characters} characters of the hash to approve, anything else to refuse: ",
        "同意请输入哈希的前 {characters} 个字符，输入其他任何内容即为拒绝：",
    ),
    "start_once": ("To start exactly this, once:", "启动这份配置（仅限一次）："),
    "error": ("error", "错误"),
    "warning": ("warning", "警告"),
    "hint": ("hint:", "建议："),
}
