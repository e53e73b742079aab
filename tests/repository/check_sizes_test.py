"""check_sizes.py finds what is too long, and lets the rest pass."""
import unittest

from tree_case import TreeCase


def body(lines):
    return "".join(f"  call({i});\n" for i in range(lines))


class Sizes(TreeCase):
    script = "check_sizes"

    def test_files_warn_above_600_lines_and_fail_above_1000(self):
        self.assertNotIn("warning", self.passes({"core/a.cpp": "int a;\n" * 600}))
        self.assertIn("core/a.cpp:1: warning: 601 lines", self.passes({"core/a.cpp": "int a;\n" * 601}))
        self.passes({"core/a.cpp": "int a;\n" * 1000})
        for path in ("core/a.cpp", "scripts/a.py", "messages/a.capnp", "CMakeLists.txt"):
            self.fails({path: "x\n" * 1001}, f"{path}:1: 1001 lines; the limit is 1000")
        self.passes({"build/a.cpp": "x\n" * 1001, "model/builtin/tokenizer.json": "1\n" * 1001})

    def test_a_function_may_have_70_lines(self):
        self.passes({"core/a.cpp": "void f(int a) {\n" + body(68) + "}\n"})
        self.fails({"core/a.cpp": "\nvoid f(int a) {\n" + body(69) + "}\n"},
                   "core/a.cpp:2: f has 71 lines; the limit of a function is 70")

    def test_functions_are_found_wherever_they_stand(self):
        long = body(75)
        for name, text in {
            "room::g": "namespace room {\nnamespace {\nint room::g() const {\n" + long + "}\n}\n}\n",
            "g": "class c final : public base<int> {\n public:\n  int g() override {\n" + long + "}\n  int m_{1};\n};\n",
            "a { brace": 'TEST_CASE("a { brace") {\n' + long + "}\n",
            "h": "template <class T, class = x<y<T>>>\nrequires y<T>\nauto h(T a) -> int {\n" + long + "}\n",
            "c::c": "c::c(int a)\n    : first_(a),\n      second_{a, 2},\n      third_(a) {\n" + long + "}\n",
            "k": "struct s {\n  struct t {\n    void k() {\n" + long + "    }\n  };\n};\n",
        }.items():
            with self.subTest(name=name):
                self.fails({"core/a.hpp": text}, f": {name} has ")

    def test_what_is_no_function_may_be_long(self):
        many = "".join(f"  a{i} = {i},\n" for i in range(90))
        self.passes({
            "core/a.hpp": "enum class e : int {\n" + many + "};\n",
            "core/b.hpp": "struct s {\n" + "  int x;\n" * 90 + "};\n",
            "core/c.cpp": "namespace n {\n" + "int f() { return 1; }\n" * 90 + "}\n",
        })

    def test_braces_in_comments_and_literals_do_not_count(self):
        text = ('void f() {\n  const char* a = "}{{";\n  char b = \'{\';\n  // {{{\n  /* {\n { */\n'
                '  auto c = R"x({ " {)x";\n  int d = 1\'000\'000;\n}\n')
        self.passes({"core/a.cpp": text + "void g() {\n" + body(60) + "}\n" + "#define OPEN {\nint x;\n"})
        self.fails({"core/a.cpp": text + "void g() {\n" + body(80) + "}\n"}, ": g has 82 lines")


if __name__ == "__main__":
    unittest.main()
