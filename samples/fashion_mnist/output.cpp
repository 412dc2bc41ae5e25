#include "output.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace {
[[noreturn]] void refuse(const std::string& path, const std::string& what, const std::error_code& why) {
  throw std::runtime_error(path + ": " + what + ": " + why.message());
}
}  // namespace

void remove_results(const std::vector<std::string>& files) {
  for (const auto& file : files) {
    std::error_code why;
    if (!std::filesystem::is_regular_file(file, why)) continue;
    const auto target = std::filesystem::canonical(file, why);
    if (!why) std::filesystem::remove(target, why);
    if (why) refuse(file, "cannot be removed", why);
  }
}

void prepare_output(const std::string& directory, const std::vector<std::string>& files) {
  std::error_code why;
  std::filesystem::create_directories(directory, why);
  if (why) refuse(directory, "cannot create the directory", why);
  if (access(directory.c_str(), W_OK | X_OK) != 0)
    refuse(directory, "cannot be written to", {errno, std::generic_category()});
  for (const auto& file : files)
    if (std::filesystem::is_directory(file, why))
      refuse(file, "cannot be written", std::make_error_code(std::errc::is_a_directory));
}
