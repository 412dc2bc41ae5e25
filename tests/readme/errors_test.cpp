// Every message quoted in docs/errors.md is expected by a test: in a line `// expect:` of tests/compile_fail, or in a
// string of a test.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::string read(const std::filesystem::path& file) {
  std::ostringstream all;
  all << std::ifstream(file).rdbuf();
  return all.str();
}

// The expectations of the tests, one for each line: string literals, adjacent ones concatenated, and lines `//
// expect:`.
void add_expectations(std::string_view source, std::string& all) {
  constexpr std::string_view marks[] = {"// expect: ", "// expect below: "};
  bool joined = false;  // only space since the last string
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source.substr(i, 2) == "//") {
      auto end = std::min(source.find('\n', i), source.size());
      for (auto mark : marks)
        if (source.substr(i, mark.size()) == mark)
          all.append("\n").append(source.substr(i, end - i).substr(mark.size()));
      i = end;
    } else if (source[i] == '\'' && i + 2 < source.size()) {
      i += source[i + 1] == '\\' ? 3 : source[i + 2] == '\'' ? 2 : 0;  // a literal; or a digit separator
      joined = false;
    } else if (source[i] == '"') {
      if (!joined) all += '\n';
      for (++i; i < source.size() && source[i] != '"'; ++i) {
        if (source[i] == '\\') ++i;
        all += source[i];
      }
      joined = true;
    } else if (!std::isspace(static_cast<unsigned char>(source[i]))) joined = false;
  }
}

std::string expectations() {
  std::string all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(LAMINA_TESTS_FOLDER))
    if (entry.path().extension() == ".cpp" && entry.path().filename() != "errors_test.cpp")
      add_expectations(read(entry.path()), all);
  return all += '\n';
}

// A document without its section of compiler output, which other tests check.
std::string without_mistakes(std::string document) {
  const auto begin = document.find("<!-- mistakes:"), end = document.find("<!-- end of mistakes -->");
  if (begin != std::string::npos && end != std::string::npos) document.erase(begin, end - begin);
  return document;
}

// The quoted messages: text in backticks in a table's column of messages, or, elsewhere, of at least five words.
std::vector<std::string> sentences(std::string_view document) {
  std::vector<std::string> found;
  std::istringstream lines{std::string(document)};
  std::string line;
  bool at_compile_time = false;
  for (std::string more; std::getline(lines, line);) {
    if (line.starts_with("## ")) at_compile_time = line.find("compiled") != std::string::npos;
    const bool table = line.starts_with("|");
    int column = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '|') ++column;
      if (line[i] != '`') continue;
      const std::string mark = line.substr(i, 2) == "``" ? "``" : "`";
      auto end = line.find(mark, i + mark.size());
      while (end == std::string::npos && !table && std::getline(lines, more)) {  // continues in the next line
        line += ' ' + more;
        end = line.find(mark, i + mark.size());
      }
      BOOST_REQUIRE_MESSAGE(end != std::string::npos, "a backtick without its pair: " << line);
      auto words = line.substr(i + mark.size(), end - i - mark.size());
      if (mark.size() == 2) words = words.substr(1, words.size() - 2);
      if (table ? column == (at_compile_time ? 1 : 3) : std::count(words.begin(), words.end(), ' ') >= 4)
        found.push_back(words);
      i = end + mark.size() - 1;
    }
  }
  return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(documented_errors)

BOOST_AUTO_TEST_CASE(every_quoted_sentence_is_expected_by_a_test) {
  const auto expected = expectations();
  const auto quoted = sentences(without_mistakes(read(LAMINA_ERRORS_DOCUMENT)));
  BOOST_TEST(quoted.size() > 70u);
  for (const auto& s : quoted)
    BOOST_CHECK_MESSAGE(expected.find(s) != std::string::npos, "no test expects `" << s << "`");
}

BOOST_AUTO_TEST_CASE(what_is_found_in_a_document) {
  const auto found = sentences(
      "## When the program runs\n| a | `b` | `c: d` and `` e `f` `` |\n`x` and `one two\nthree four five` and `a(0, 0) "
      "= 1`\n"
      "## When the program is compiled\n| `g` | `h` |\n");
  const std::vector<std::string> want{"c: d", "e `f`", "one two three four five", "g"};
  BOOST_TEST(found == want, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_is_found_in_a_test) {
  std::string all;
  add_expectations(
      "// expect: one\n// expect below: more\n// two \"three\"\nf(\"fo\\\"ur\" // not this\n  \" and five\", '\"', "
      "\"six\");",
      all);
  BOOST_TEST(all == "\none\nmore\nfo\"ur and five\nsix");
}

BOOST_AUTO_TEST_SUITE_END()
