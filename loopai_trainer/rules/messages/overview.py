"""What `trainer` alone says: where you are, and what to type next."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, tuple[str, str]] = {
    "title": (
        "loopai-trainer {version}: prepare a plan, approve its hash, run exactly that.",
        "loopai-trainer {version}：先准备计划，再审批其哈希，只运行审批过的那一份。",
    ),
    "no_runs": ("no runs yet", "还没有任何运行"),
    "one_run": ("1 run", "共 1 次运行"),
    "runs": ("{count} runs", "共 {count} 次运行"),
    "newest_runs": ("the newest {shown} of {count} runs", "共 {count} 次运行，以下是最新的 {shown} 次"),
    "orphaned": (
        "Lost their worker, training lives: an operator decides (or: --terminate)",
        "worker 已丢失而训练仍在进行：由运维人员决定（也可用 --terminate）",
    ),
    "waiting": (
        "Wait for your approval; this shows them, and how to start them",
        "等待您审批；以下命令显示其内容以及如何启动",
    ),
    "going_on": ("Going on", "正在进行"),
    "ended": ("Ended last", "最近结束"),
    "more": ("... and {count} more: trainer list", "……另有 {count} 个：trainer list"),
    "doctor": ("does this host have what it takes?", "这台机器是否具备训练条件？"),
    "templates": ("what can be trained, and what it needs", "可以训练什么，需要哪些条件"),
    "guide": ("what a plan still lacks", "计划还缺少什么"),
    "new_plan": (
        "A new plan: trainer prepare. How it is done: trainer docs.",
        "新的计划：trainer prepare。操作说明：trainer docs。",
    ),
    "all_commands": ("All commands: trainer --help", "所有命令：trainer --help"),
    "version": ("version", "版本"),
    "task": ("task", "任务"),
    "status": ("status", "状态"),
    "step": ("step", "步数"),
    "best": ("best", "最佳"),
}
