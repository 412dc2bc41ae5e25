// lamina: looks into the files that networks are kept in, runs, measures, trains and draws what is in them, and looks
// at the machine that they run on.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

import lamina;

#include "tool.h"

namespace {

enum exit_code { done = 0, internal = 1, bad_input = 2, unsupported = 3 };

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
    if (e.get_exit_code() != 0)
      throw lamina::value_error(lamina::printable(e.what(), 1024) + " (--help lists what there is)");
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
