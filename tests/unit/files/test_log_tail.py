import tracemalloc

from loopai_trainer.files.log_tail import MAX_BYTES, MAX_LINE, Follower, split_lines, tail


def test_the_last_lines(tmp_path):
    path = tmp_path / "log"
    path.write_text("".join(f"line {n}\n" for n in range(100)))
    assert tail(str(path), 3) == (["line 97", "line 98", "line 99"], True)
    assert tail(str(path), 100)[1] is False
    assert tail(str(path), 0) == ([], True)
    assert tail(str(tmp_path / "none"), 5) == ([], False)


def test_progress_bars_control_codes_and_rubbish():
    data = b"a\r\nb\rc\x1b[31mred\x1b[0m\x07\n\xff\xfe\n\n"
    assert split_lines(data) == ["a", "b", "cred", "\ufffd\ufffd"]
    assert split_lines(b"x" * (MAX_LINE + 5))[0].endswith("... (5 more characters)")


def test_nothing_that_a_terminal_obeys_or_that_turns_the_writing_is_left():
    data = "\x1b]0;title\x07a \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1bP1;2|q\x1b\\b\u202ec\u2028d\x1b[2Je\x9b31m"
    assert split_lines(data.encode()) == ["a link bcde31m"]
    assert split_lines(b"\0" * 100 + b"\n\x1b[0m\n") == []


def test_a_huge_line_costs_constant_memory(tmp_path):
    path = tmp_path / "log"
    with open(path, "wb") as file:
        for _ in range(60):
            file.write(b"\r 12% 5/40" * 100_000)
    tracemalloc.start()
    lines, more = tail(str(path), 2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lines == [" 12% 5/40"] * 2
    assert more
    assert peak < 40 * MAX_BYTES


def test_following_across_growth_and_rotation(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"old\n")
    follower = Follower(str(path), from_end=True)
    assert follower.lines() == []
    with open(path, "ab") as file:
        file.write(b"new\npar")
    assert follower.lines() == ["new"]
    with open(path, "ab") as file:
        file.write(b"tial\n")
    assert follower.lines() == ["partial"]
    path.rename(tmp_path / "log.1")
    assert follower.lines() == []
    path.write_bytes(b"fresh\n")
    assert follower.lines() == ["fresh"]


def test_following_from_the_start_of_a_file_that_is_not_there_yet(tmp_path):
    follower = Follower(str(tmp_path / "log"), from_end=False)
    assert follower.lines() == []
    (tmp_path / "log").write_bytes(b"a\nb\n")
    assert follower.lines() == ["a", "b"]
