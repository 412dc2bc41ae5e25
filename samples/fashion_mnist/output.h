// The output directory.
#pragma once
#include <string>
#include <vector>

/// Creates the directory and checks that the files can be written there, before hours of work could be lost.
/// Throws std::runtime_error with a one-line message.
void prepare_output(const std::string& directory, const std::vector<std::string>& files);

/// Deletes the regular files among `files`, following links, so that results of two runs never mix.
/// Throws std::runtime_error with a one-line message.
void remove_results(const std::vector<std::string>& files);
