// mistakes count|update|<name> <document> <snippets> <work folder> <root> "<compiler and flags>" name...
//
// The document's section of compiler output, between two comments: for each snippet of tests/compile_fail with a line
// `// mistake: <in words>`, the snippet as a user would write it and the beginning of the compiler's output. `update`
// writes the section. <name> fails if the snippet's part differs from the present output, or if the expected message is
// not on the first screen. `count` fails if the section's number of parts differs from the number of names.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr std::size_t first_screen = 12;  // lines of the compiler's output
constexpr std::size_t width = 110;        // of a quoted line other than the message
constexpr std::string_view opening = "<!-- mistakes: written by the target update_mistakes -->";
constexpr std::string_view closing = "<!-- end of mistakes -->";

std::string read(const fs::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file.string() + " cannot be read");
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}
std::vector<std::string> lines_of(const std::string& s) {
  std::vector<std::string> lines;
  std::istringstream in(s);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct mistake {
  std::string name, title, program;
  std::vector<std::string> sentences;
};
// The snippet with BAD defined, without lines for the tests.
mistake from_snippet(const std::string& name, const std::string& source) {
  constexpr std::string_view title = "// mistake: ", expect = "// expect: ";
  mistake m{fs::path(name).filename().string(), "", "", {}};
  bool bad = true, inside = false;
  for (const auto& line : lines_of(source)) {
    if (line.starts_with(title)) m.title = line.substr(title.size());
    else if (line.starts_with(expect)) m.sentences.push_back(line.substr(expect.size()));
    else if (line == "#ifdef BAD") inside = true;
    else if (line == "#else" && inside) bad = false;
    else if (line == "#endif" && inside) inside = !(bad = true);
    else if (bad) m.program += line + "\n";
  }
  if (m.title.empty() || m.sentences.empty())
    throw std::runtime_error(name + " has no line `// mistake:` or no line `// expect:`");
  return m;
}

struct options {
  fs::path document, snippets, work, root;
  std::string compiler;
};
std::string output_of(const mistake& m, const options& o) {
  const auto file = m.name + ".cpp";
  fs::create_directories(o.work);
  std::ofstream(o.work / file) << m.program;
  const auto said = o.work / (m.name + ".txt");
  const auto command = "cd '" + o.work.string() + "' && " + o.compiler + " -fno-color-diagnostics -fsyntax-only " +
                       file + " > '" + said.string() + "' 2>&1";
  if (std::system(command.c_str()) == 0) throw std::runtime_error(m.name + " compiles");
  return read(said);
}

// The compiler's output up to the last message. Source lines and line numbers of the library are removed; other long
// lines are truncated.
std::string quoted(const mistake& m, const std::string& output, const fs::path& root) {
  const auto all = lines_of(output);
  std::size_t last = 0;
  for (const auto& sentence : m.sentences) {
    std::size_t at = 0;
    while (at < all.size() && all[at].find(sentence) == std::string::npos) ++at;
    if (at >= std::min(first_screen, all.size()))
      throw std::runtime_error(m.name + ": `" + sentence + "` is not in the first " + std::to_string(first_screen) +
                               " lines of\n" + output.substr(0, 4000));
    last = std::max(last, at);
  }
  const std::string library = root.string() + "/";
  std::string text;
  bool own = true;  // the next source lines belong to the user
  for (std::size_t i = 0; i <= last; ++i) {
    std::string line = all[i];
    const bool message = line.find(": note: ") != std::string::npos || line.find("error: ") != std::string::npos;
    if (message) own = !line.starts_with(library);
    else if (!own) continue;
    if (message && !own) {
      const auto numbers = line.find(':');
      line = fs::path(line.substr(0, numbers)).filename().string() + line.substr(line.find(": ", numbers));
    }
    const bool says = std::any_of(m.sentences.begin(), m.sentences.end(),
                                  [&](const auto& s) { return line.find(s) != std::string::npos; });
    if (!says && line.size() > width) line = line.substr(0, width - 4) + " ...";
    text += line + "\n";
  }
  return text;
}
std::string part_of(const mistake& m, std::size_t number, const options& o) {
  return "### " + std::to_string(number) + ". " + m.title + "\n\n```cpp\n" + m.program + "```\n```text\n" +
         quoted(m, output_of(m, o), o.root) + "```\n\n";
}

int run(const std::string& what, const options& o, const std::vector<std::string>& names) {
  const auto document = read(o.document);
  const auto begin = document.find(opening), end = document.find(closing);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    throw std::runtime_error("the document has no section of mistakes");
  if (what == "update") {
    std::string section = std::string(opening) + "\n\n";
    for (std::size_t i = 0; i < names.size(); ++i)
      section += part_of(from_snippet(names[i], read(o.snippets / (names[i] + ".cpp"))), i + 1, o);
    std::ofstream(o.document) << document.substr(0, begin) << section << document.substr(end);
    return 0;
  }
  const auto section = document.substr(begin, end - begin);
  if (what == "count") {
    std::size_t parts = 0;
    for (std::size_t at = 0; (at = section.find("\n### ", at)) != std::string::npos; ++at) ++parts;
    if (parts != names.size())
      throw std::runtime_error("the document shows " + std::to_string(parts) + " mistakes of " +
                               std::to_string(names.size()));
    return 0;
  }
  const auto at = std::find(names.begin(), names.end(), what);
  if (at == names.end()) throw std::runtime_error(what + " is not in the list");
  const auto part = part_of(from_snippet(what, read(o.snippets / (what + ".cpp"))),
                            static_cast<std::size_t>(at - names.begin()) + 1, o);
  if (section.find(part) != std::string::npos) return 0;
  std::cerr << o.document.string() << " does not hold what the compiler says now; build the target update_mistakes:\n"
            << part;
  return 1;
}

}  // namespace

int main(int count, char** arguments) try {
  const std::vector<std::string> a(arguments + 1, arguments + count);
  if (a.size() < 7)
    throw std::runtime_error("mistakes count|update|<name> document snippets work root compiler name...");
  const options o{a[1], a[2], a[3], a[4], a[5]};
  return run(a[0], o, {a.begin() + 6, a.end()});
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
