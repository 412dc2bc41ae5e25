// The directory of the results.
#pragma once
#include <string>
#include <vector>

/// Makes the directory and sees that the files can be written into it, before hours of work are lost.
/// Throws std::runtime_error with one line.
void prepare_output(const std::string& directory, const std::vector<std::string>& files);
