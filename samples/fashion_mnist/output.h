// The directory of the results.
#pragma once
#include <string>
#include <vector>

/// Makes the directory and sees that the files can be written into it, before hours of work are lost.
/// Throws std::runtime_error with one line.
void prepare_output(const std::string& directory, const std::vector<std::string>& files);

/// Takes away the regular files among `files`, through links, so that new results never lie among those of an earlier run.
/// Throws std::runtime_error with one line.
void remove_results(const std::vector<std::string>& files);
