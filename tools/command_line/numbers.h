// Options that are real numbers: read and printed with a point, whatever the locale.
#pragma once
#include <CLI/CLI.hpp>

#include <string>

namespace command_line {

enum class range { finite, positive };
/// An option that is a number. Errors: CLI::ValidationError naming the option, what is expected and what was given.
CLI::Option* add_number(CLI::App& app, const std::string& name, double& to, const std::string& text,
                        range r = range::finite);

}  // namespace command_line
