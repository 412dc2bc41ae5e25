// Options with real values: parsed and printed with a decimal point in every locale.
#pragma once
#include <CLI/CLI.hpp>

#include <string>

namespace command_line {

enum class range { finite, positive };
/// Adds a numeric option. Errors: CLI::ValidationError, which names the option, the expected range and the given text.
CLI::Option* add_number(CLI::App& app, const std::string& name, double& to, const std::string& text,
                        range r = range::finite);

}  // namespace command_line
