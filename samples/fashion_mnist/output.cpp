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

void prepare_output(const std::string& directory, const std::vector<std::string>& files) {
  std::error_code why;
  std::filesystem::create_directories(directory, why);
  if (why) refuse(directory, "cannot be made a directory", why);
  if (access(directory.c_str(), W_OK | X_OK) != 0)
    refuse(directory, "cannot be written into", {errno, std::generic_category()});
  for (const auto& file : files)
    if (std::filesystem::is_directory(file, why))
      refuse(file, "cannot be written", std::make_error_code(std::errc::is_a_directory));
}
