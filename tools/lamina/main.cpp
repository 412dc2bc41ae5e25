// lamina: looks into the files that networks are kept in, runs, measures, trains and draws what is in them, and looks
// at the machine that they run on.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

import lamina;

#include "tool.h"

namespace {

enum exit_code { done = 0, internal = 1, bad_input = 2, unsupported = 3 };

// What is no command, or no option of the one that was given, before what is missing besides.
std::string unknown_word(const CLI::App& app, int argc, char** argv) {
  const auto given = app.get_subcommands();
  std::vector<std::string> there;
  if (given.empty()) {
    if (argc < 2) return {};
    const std::string word = argv[1];
    if (word.starts_with('-')) return {};
    for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
      there.push_back(command->get_name());
    return "`" + lamina::printable(word) + "` is no command" + tool::did_you_mean(word, there);
  }
  const CLI::App& command = *given.back();
  for (std::string word : app.remaining(true)) {
    if (!word.starts_with('-') || word == "--") continue;
    word.resize(std::min(word.find('='), word.size()));
    for (const auto* o : command.get_options())
      for (const auto& name : o->get_lnames()) there.push_back("--" + name);
    return "`" + lamina::printable(word) + "` is no option of `lamina " + command.get_name() + "`" +
           tool::did_you_mean(word, there);
  }
  return {};
}

int run(int argc, char** argv) {
  CLI::App app("lamina " LAMINA_VERSION ": networks in files, and the machine that they run on", "lamina");
  app.set_version_flag("--version", LAMINA_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 2 bad use or bad input, 3 something that is not supported, 1 an error of the program "
      "itself.");
  for (auto add : {tool::add_show, tool::add_run, tool::add_bench, tool::add_plan, tool::add_draw, tool::add_train,
                   tool::add_profile, tool::add_quantize, tool::add_bundle, tool::add_doctor})
    add(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) {
      const bool unread = e.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) ||
                          e.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
      const std::string unknown = unread ? unknown_word(app, argc, argv) : std::string();
      throw lamina::value_error((unknown.empty() ? lamina::printable(e.what(), 1024) : unknown) +
                                " (--help lists what there is)");
    }
    app.exit(e);    // prints the help or the version
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    throw lamina::file_error("the standard output cannot be written");
  return done;
}

int complain(const char* what, exit_code code) {
  std::fprintf(stderr, "lamina: %s\n", what);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const lamina::unsupported_error& e) {
    return complain(e.what(), unsupported);
  } catch (const lamina::error& e) {
    return complain(e.what(), bad_input);
  } catch (const std::exception& e) {
    return complain((std::string("internal error: ") + e.what()).c_str(), internal);
  }
}
