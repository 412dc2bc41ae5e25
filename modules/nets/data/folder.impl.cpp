module;
#include <dirent.h>
#include <cerrno>
module lamina:data.folder.impl;
import :core;
import :data.folder;
import :io;
import :io.file.impl;
import lamina.std;

namespace lamina {

namespace {

/// Sorted names in a folder whose path satisfies `accepts`, without those that begin with a dot.
template <class F> std::vector<std::string> names_in(const std::string& directory, F accepts) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(directory.c_str()), &::closedir);
  if (!open) detail::system_failure(printable(directory, 300), "cannot be read", errno);
  std::vector<std::string> names;
  while (const dirent* at = ::readdir(open.get()))
    if (at->d_name[0] != '.' && accepts(directory + "/" + at->d_name)) names.emplace_back(at->d_name);
  std::sort(names.begin(), names.end());
  return names;
}
bool ends_in(const std::string& path, const std::vector<std::string>& endings) {
  std::string end = path.substr(std::min(path.rfind('.'), path.size()));
  for (char& c : end)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return std::find(endings.begin(), endings.end(), end) != endings.end();
}

}  // namespace

files_by_class list_by_class(const std::string& directory, const std::vector<std::string>& endings) {
  std::error_code ignored;
  text known;
  for (std::size_t i = 0; i < endings.size(); ++i)
    known << (i == 0 ? "" : i + 1 < endings.size() ? ", " : " or ") << endings[i];
  text t;
  files_by_class found;
  found.class_names =
      names_in(directory, [&](const std::string& path) { return std::filesystem::is_directory(path, ignored); });
  if (found.class_names.empty())
    detail::file_failure(
        printable(directory, 300),
        t << "the folder has no subfolders; expected one per class, with files that end in " << known.view());
  for (std::size_t c = 0; c < found.class_names.size(); ++c) {
    const std::string folder = directory + "/" + found.class_names[c];
    const auto files = names_in(folder, [&](const std::string& path) {
      return ends_in(path, endings) && std::filesystem::is_regular_file(path, ignored);
    });
    if (files.empty())
      detail::file_failure(printable(folder, 300),
                           t << "the folder of a class has no file that ends in " << known.view());
    for (const auto& name : files) found.files.push_back({folder + "/" + name, static_cast<std::int64_t>(c)});
  }
  return found;
}

}  // namespace lamina
